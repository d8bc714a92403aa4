/** Known answers of the transparency-log formats that a verifier reads (`tests/vectors/tlog.json`). */
import { hex, parseBase64, parseHex, sha256, toBigInt, utf8 } from "./bytes.ts";
import { accepted } from "./errors.ts";
import { isQuorum } from "./evidence.ts";
import { isConsistent, isIncluded, leafHash, nodeHash } from "./merkle.ts";
import {
  cosignatureMessage,
  isLineOf,
  keyId,
  type Note,
  parseCheckpoint,
  parseNote,
  parseSignedCheckpoint,
  parseVerifierKey,
  subtreeMessage,
  type VerifierKey,
  verifyLine,
} from "./note.ts";
import { parsePolicy, satisfied } from "./policy.ts";
import { parseTlogProof } from "./tlogproof.ts";
import type { Given, Outcome } from "./vectors.ts";

const COSIGNATURE_BYTES = 4 + 8 + 64;
const ML_DSA_BYTES = 4 + 8 + 2420;

/** What a case says of its input, or null where it is refused. */
type Answer = Readonly<Record<string, unknown>> | null;

function compared(answer: (input: Given) => Answer): (given: Given) => Outcome {
  return ({ input, expect }) => {
    const got = accepted(() => answer(input));
    if (expect.ok === false) {
      return got === null ? null : "accepted";
    }
    if (got === null) {
      return "refused";
    }
    const wrong = Object.entries(expect).find(
      ([name, wanted]) => name !== "ok" && JSON.stringify(got[name]) !== JSON.stringify(wanted),
    );
    return wrong === undefined
      ? null
      : `${wrong[0]}: ${JSON.stringify(got[wrong[0]])} instead of ${JSON.stringify(wrong[1])}`;
  };
}

const hashes = (list: readonly string[]): readonly Uint8Array[] => list.map((item) => parseHex(item));

interface Opened {
  readonly note: Note;
  readonly verified: readonly { readonly key: VerifierKey; readonly timestamp: bigint | null }[];
}

/** Every line of a known key holds, and there is one at least. */
function open({ note: text, note_base64: encoded, vkeys }: Given): Opened | null {
  const note = parseNote(encoded === undefined ? utf8(text) : parseBase64(encoded));
  const keys: readonly VerifierKey[] = vkeys.map(parseVerifierKey);
  const verified: Opened["verified"][number][] = [];
  for (const line of note.signatures) {
    const key = keys.find((candidate) => isLineOf(line, candidate));
    const verdict = key && verifyLine(key, note.text, line.signature);
    if (verdict?.valid === false) {
      return null;
    }
    if (key && verdict) {
      verified.push({ key, timestamp: verdict.timestamp });
    }
  }
  return verified.length === 0 ? null : { note, verified };
}

function noteOpen(input: Given): Answer {
  const opened = open(input);
  return opened && { text: opened.note.text, verified: opened.verified.map(({ key }) => [key.name, hex(key.id)]) };
}

function cosignatureVerify(input: Given): Answer {
  const opened = open(input);
  if (opened === null) {
    return null;
  }
  const { note, verified } = opened;
  return {
    verified: verified.map(({ key, timestamp }) => ({
      name: key.name,
      key_id_hex: hex(key.id),
      timestamp: timestamp === null ? null : Number(timestamp),
    })),
    signed_message_utf8: Object.fromEntries(
      verified
        .filter(({ key }) => key.type === 4)
        .map(({ key, timestamp }) => [
          hex(key.id),
          new TextDecoder().decode(cosignatureMessage(timestamp ?? 0n, note.text)),
        ]),
    ),
  };
}

function cosignatureEncode(input: Given): Answer {
  if (input.signature_base64 !== undefined) {
    const bytes = parseBase64(input.signature_base64);
    const known = [COSIGNATURE_BYTES, ML_DSA_BYTES].includes(bytes.length);
    const timestamp = Number(toBigInt(bytes.subarray(4, 12)));
    return known ? { key_id_hex: hex(bytes.subarray(0, 4)), timestamp, length: bytes.length } : null;
  }
  const time = BigInt(input.timestamp);
  if (input.checkpoint_body !== undefined) {
    return { message: new TextDecoder().decode(cosignatureMessage(time, input.checkpoint_body)) };
  }
  if (input.start !== 0 && time !== 0n) {
    return null;
  }
  const tree = { origin: input.log_origin, size: BigInt(input.end), root: parseHex(input.hash_hex), extensions: [] };
  return { message_hex: hex(subtreeMessage(input.cosigner_name, time, tree, BigInt(input.start))) };
}

function root(leaves: readonly Uint8Array[]): Uint8Array {
  if (leaves.length <= 1) {
    return leaves[0] === undefined ? sha256() : leafHash(leaves[0]);
  }
  let split = 1;
  while (2 * split < leaves.length) {
    split *= 2;
  }
  return nodeHash(root(leaves.slice(0, split)), root(leaves.slice(split)));
}

function merkleHash(input: Given): Answer {
  switch (input.op) {
    case "leaf":
      return { hash_hex: hex(leafHash(parseHex(input.data_hex))) };
    case "node":
      return { hash_hex: hex(nodeHash(parseHex(input.left_hex), parseHex(input.right_hex))) };
    case "root":
      return { hash_hex: hex(root(hashes(input.leaves_hex))) };
    default: {
      const leaf = (i: number): Uint8Array => utf8(input.leaf_format.replace("%d", String(input.from + i)));
      return { hash_hex: hex(root(Array.from({ length: input.count }, (_, i) => leaf(i)))) };
    }
  }
}

function consistency({ size1, size2, root1_hex: root1, root2_hex: root2, proof_hex: proof }: Given): Answer {
  return isConsistent(BigInt(size1), BigInt(size2), parseHex(root1), parseHex(root2), hashes(proof)) ? {} : null;
}

function inclusion({ index, size, root_hex: rootHash, leaf_hash_hex: leaf, proof_hex: proof }: Given): Answer {
  return isIncluded(parseHex(leaf), BigInt(index), BigInt(size), hashes(proof), parseHex(rootHash)) ? {} : null;
}

function tlogProofParse({ proof: text }: Given): Answer {
  const { index, checkpoint } = parseTlogProof(utf8(text));
  return { index: Number(index), checkpoint };
}

function tlogProofVerify(input: Given): Answer {
  const names: readonly string[] = input.witness_vkeys.map((_: string, i: number) => `W${i}`);
  const logs = input.log_vkeys.map((vkey: string) => `log ${vkey}\n`).join("");
  const witnesses = names.map((name, i) => `witness ${name} ${input.witness_vkeys[i]}\n`).join("");
  const quorum = input.quorum > 0 ? `group Q ${input.quorum} ${names.join(" ")}\nquorum Q\n` : "quorum none\n";
  const policy = parsePolicy(utf8(`${logs}${witnesses}${quorum}`));
  const proof = parseTlogProof(utf8(input.proof));
  const checkpoint = parseSignedCheckpoint(proof.checkpoint);
  const lines = (key: VerifierKey): boolean =>
    checkpoint.note.signatures.some(
      (line) => isLineOf(line, key) && verifyLine(key, checkpoint.note.text, line.signature)?.valid === true,
    );
  const seen = new Set([...policy.witnesses].filter(([, key]) => lines(key)).map(([name]) => name));
  const leaf = leafHash(parseHex(input.leaf_data_hex));
  const signed = policy.logs.some(lines) && (input.quorum === 0 ? satisfied(policy, seen) : isQuorum(policy, seen));
  return signed && isIncluded(leaf, proof.index, checkpoint.size, proof.hashes, checkpoint.root) ? {} : null;
}

export const TLOG_SECTIONS: Readonly<Record<string, (given: Given) => Outcome>> = {
  vkey_parse: compared(({ vkey }) => {
    const { name, id, type, key } = parseVerifierKey(vkey);
    return { name, key_id_hex: hex(id), type, public_key_hex: hex(key) };
  }),
  key_id: compared(({ name, type, public_key_hex: key }) => ({ key_id_hex: hex(keyId(name, type, parseHex(key))) })),
  note_open: compared(noteOpen),
  cosignature_verify: compared(cosignatureVerify),
  cosignature_encode: compared(cosignatureEncode),
  checkpoint_parse: compared(({ text }) => {
    const { origin, size, root: rootHash, extensions } = parseCheckpoint(text);
    return { origin, size: Number(size), root_hex: hex(rootHash), extensions };
  }),
  merkle_hash: compared(merkleHash),
  consistency_verify: compared(consistency),
  inclusion_verify: compared(inclusion),
  tlog_proof_parse: compared(tlogProofParse),
  tlog_proof_verify: compared(tlogProofVerify),
  origin_hash: compared(({ origin }) => ({ sha256_hex: hex(sha256(utf8(origin))) })),
  policy_quorum: compared(({ policy, cosigned_by: names }) => ({
    satisfied: satisfied(parsePolicy(utf8(policy)), new Set(names)),
  })),
  policy_parse: compared(({ policy }) => ({ quorum: parsePolicy(utf8(policy)).quorum })),
};
