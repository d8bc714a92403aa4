/** The steps of the claims about the log: leaves, proofs, signatures, witnesses (PROTOCOL.md, 2.3, 2.7, 7.1, 7.2). */
import { fromUtf8, utf8 } from "./bytes.ts";
import type { Document, Event } from "./document.ts";
import { isEventIncluded } from "./evidence.ts";
import { type LogKey, signedBy } from "./log-keys.ts";
import { inclusionPath, isConsistent } from "./merkle.ts";
import {
  cosignatureMessage,
  isLineOf,
  KeyType,
  type SignatureLine,
  type SignedCheckpoint,
  type VerifierKey,
  verifyLine,
} from "./note.ts";
import type { Policy } from "./policy.ts";
import { bytes, joined, type Steps, text, yesOrNo } from "./steps.ts";

export function logSteps(
  document: Document,
  keys: readonly LogKey[],
  policy: Policy | null,
  steps: Steps,
): void {
  signatureStep("checkpoint", "the document's checkpoint", document.checkpoint, keys, steps);
  for (const event of document.events) {
    leafStep(event, steps);
    pathStep(event, document.checkpoint, event.proof, `path-${event.index}`, steps);
  }
  document.evidence.forEach(({ checkpoint, consistency, proofs }, i) => {
    const name = `evidence-${i + 1}`;
    signatureStep(name, `checkpoint ${i + 1} of the evidence`, checkpoint, keys, steps);
    consistencyStep(name, document.checkpoint, checkpoint, consistency, steps);
    for (const event of document.events) {
      const proof = proofs.get(event.index);
      if (proof !== undefined) {
        pathStep(event, checkpoint, proof, `${name}-path-${event.index}`, steps);
      }
    }
  });
  for (const checkpoint of [document.checkpoint, ...document.evidence.map((item) => item.checkpoint)]) {
    for (const [name, witness] of policy?.witnesses ?? []) {
      witnessSteps(name, witness, checkpoint, steps);
    }
  }
}

function leafStep({ index, bytes: entry, leaf }: Event, steps: Steps): void {
  steps.add({
    id: `leaf-${index}`,
    claim: "log",
    title: `The leaf of entry ${index}`,
    rule: "2.3",
    entryIndex: index,
    inputs: [text("entry", fromUtf8(entry) ?? "")],
    operation: "SHA-256(0x00 ‖ entry)",
    result: bytes("leaf", leaf),
    ok: null,
  });
}

function pathStep(event: Event, checkpoint: SignedCheckpoint, proof: Event["proof"], id: string, steps: Steps): void {
  const { index, leaf } = event;
  const path = inclusionPath(leaf, BigInt(index), checkpoint.size, proof);
  const siblings = (path ?? []).map(({ sibling, left }, i) =>
    bytes(`sibling ${i + 1}, on the ${left ? "left" : "right"}`, sibling),
  );
  steps.add({
    id,
    claim: "log",
    title: `Entry ${index} is in the tree of ${checkpoint.size}`,
    rule: "7.2",
    entryIndex: index,
    inputs: [
      bytes("leaf", leaf),
      ...(path === null ? [joined("a proof of the wrong length", proof)] : siblings),
      bytes("root of the checkpoint", checkpoint.root),
    ],
    operation: "with each sibling in turn: SHA-256(0x01 ‖ left ‖ right); the last is the root",
    result: path === null ? text("root", "none") : bytes("root", path.at(-1)?.result ?? leaf),
    ok: isEventIncluded(event, checkpoint, proof),
  });
}

function signatureStep(
  id: string,
  what: string,
  checkpoint: SignedCheckpoint,
  keys: readonly LogKey[],
  steps: Steps,
): void {
  const lineOf = (one: VerifierKey): SignatureLine | undefined =>
    checkpoint.note.signatures.find((candidate) => isLineOf(candidate, one));
  const key = (keys.find((one) => lineOf(one.key) !== undefined) ?? keys[0])?.key ?? null;
  const line = key && lineOf(key);
  const holds = keys.length > 0 ? signedBy(checkpoint.note, checkpoint.size, keys) === "yes" : null;
  steps.add({
    id: `${id}-signature`,
    claim: "log",
    title: `The log signed ${what}`,
    rule: "2.7",
    inputs: [
      text("signed text", checkpoint.note.text),
      bytes("signed text, as bytes", utf8(checkpoint.note.text)),
      key === null ? text("public key", "not given") : bytes("public key", key.key),
      line ? bytes("signature R ‖ S", line.signature) : text("signature", "no line of this key"),
    ],
    operation: "Ed25519: encode([S]B − [SHA-512(R ‖ key ‖ text) mod L]A) = R",
    result: holds === null ? text("signature", "not checked") : yesOrNo("signature", holds),
    ok: holds,
  });
}

function consistencyStep(
  id: string,
  one: SignedCheckpoint,
  other: SignedCheckpoint,
  proof: Event["proof"],
  steps: Steps,
): void {
  const [small, large] = one.size <= other.size ? [one, other] : [other, one];
  const holds = isConsistent(small.size, large.size, small.root, large.root, proof);
  steps.add({
    id: `${id}-consistency`,
    claim: "log",
    title: `The trees of ${small.size} and of ${large.size} are of one log`,
    rule: "7.2",
    inputs: [
      bytes(`root of ${small.size}`, small.root),
      bytes(`root of ${large.size}`, large.root),
      ...proof.map((hash, i) => bytes(`hash ${i + 1}`, hash)),
    ],
    operation: "the consistency proof of RFC 6962 (RFC 9162, 2.1.4.2)",
    result: yesOrNo("consistency", holds),
    ok: holds,
  });
}

function witnessSteps(name: string, key: VerifierKey, checkpoint: SignedCheckpoint, steps: Steps): void {
  for (const line of checkpoint.note.signatures.filter((candidate) => isLineOf(candidate, key))) {
    const verdict = verifyLine(key, checkpoint.note.text, line.signature);
    const timestamp = verdict?.valid === true ? verdict.timestamp : null;
    const message =
      timestamp === null ? checkpoint.note.text : fromUtf8(cosignatureMessage(timestamp, checkpoint.note.text));
    steps.add({
      id: `witness-${name}-${checkpoint.size}`,
      claim: "witnessed",
      title: `The witness ${name} saw the tree of ${checkpoint.size}`,
      rule: "7.1",
      inputs: [
        text("signed text", message ?? ""),
        bytes("public key", key.key),
        bytes("time ‖ signature", line.signature),
      ],
      operation:
        key.type === KeyType.ML_DSA_44
          ? "ML-DSA-44 over the subtree's message"
          : "Ed25519 over the cosignature's message",
      result: timestamp === null ? yesOrNo("signature", verdict?.valid === true) : text("time, in seconds", timestamp),
      ok: verdict?.valid === true,
    });
  }
}
