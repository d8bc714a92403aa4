/** C2SP tlog-proof: an inclusion proof with its checkpoint, as text (tlog-proof, v1). */
import { fromUtf8, parseBase64, parseDecimal } from "./bytes.ts";
import { accepted, FormatError } from "./errors.ts";
import { HASH_BYTES } from "./merkle.ts";
import { MAX_SIZE } from "./note.ts";

export const TLOG_PROOF_PREFIX = "c2sp.org/tlog-proof@";
const HEADER = `${TLOG_PROOF_PREFIX}v1`;
const MAX_HASHES = 63;
/** The longest extra line is that of an entry of 65,535 bytes, the longest note has a million. */
const MAX_BYTES = 1_200_000;

export interface TlogProof {
  readonly extra: Uint8Array | null;
  readonly index: bigint;
  readonly hashes: readonly Uint8Array[];
  /** A signed note, not looked at yet. */
  readonly checkpoint: string;
}

export function parseTlogProof(bytes: Uint8Array): TlogProof {
  const refusal = (what: string): FormatError => new FormatError("tlog-proof", what);
  const text = bytes.length <= MAX_BYTES ? fromUtf8(bytes) : null;
  const split = text?.indexOf("\n\n") ?? -1;
  if (text === null || split < 0) {
    throw refusal("not UTF-8, too long, or without the empty line in front of the checkpoint");
  }
  const checkpoint = text.slice(split + 2);
  const [header, ...lines] = text.slice(0, split).split("\n");
  if (header !== HEADER || !checkpoint.endsWith("\n") || checkpoint.startsWith("\n")) {
    throw refusal("another first line, or no checkpoint");
  }
  const extra = lines[0]?.startsWith("extra ") ? accepted(() => parseBase64(lines.shift()?.slice(6) ?? "")) : undefined;
  const line = lines.shift() ?? "";
  const index = line.startsWith("index ") ? accepted(() => parseDecimal(line.slice(6), MAX_SIZE)) : null;
  const hashes = accepted(() => lines.map((hash) => parseBase64(hash, HASH_BYTES)));
  if (extra === null || extra?.length === 0 || index === null || hashes === null || hashes.length > MAX_HASHES) {
    throw refusal("a line that is not well formed");
  }
  return { extra: extra ?? null, index, hashes, checkpoint };
}
