/** The log's tree: hashes, inclusion and consistency (PROTOCOL.md, 2.3; RFC 6962, proofs as in RFC 9162, 2.1.3 and 2.1.4). */
import { equal, sha256 } from "./bytes.ts";

export const HASH_BYTES = 32;
const LEAF = Uint8Array.of(0);
const NODE = Uint8Array.of(1);

/** H(0x00 ‖ entry) */
export function leafHash(entry: Uint8Array): Uint8Array {
  return sha256(LEAF, entry);
}

/** H(0x01 ‖ left ‖ right) */
export function nodeHash(left: Uint8Array, right: Uint8Array): Uint8Array {
  return sha256(NODE, left, right);
}

/** One step of an inclusion proof: the sibling, and on which side of what was computed so far it stands. */
export interface PathStep {
  readonly sibling: Uint8Array;
  readonly left: boolean;
  readonly result: Uint8Array;
}

/** The path from a leaf to the root, or null if a tree of `size` has no such leaf or its proof another length. */
export function inclusionPath(
  leaf: Uint8Array,
  index: bigint,
  size: bigint,
  proof: readonly Uint8Array[],
): readonly PathStep[] | null {
  if (index < 0n || index >= size) {
    return null;
  }
  const path: PathStep[] = [];
  let node = index;
  let last = size - 1n;
  let result = leaf;
  for (const sibling of proof) {
    if (last === 0n) {
      return null;
    }
    const left = (node & 1n) === 1n || node === last;
    result = left ? nodeHash(sibling, result) : nodeHash(result, sibling);
    path.push({ sibling, left, result });
    if (left) {
      while ((node & 1n) === 0n && node !== 0n) {
        node >>= 1n;
        last >>= 1n;
      }
    }
    node >>= 1n;
    last >>= 1n;
  }
  return last === 0n ? path : null;
}

/** Whether a leaf is at `index` in the tree of `size` with this root. */
export function isIncluded(
  leaf: Uint8Array,
  index: bigint,
  size: bigint,
  proof: readonly Uint8Array[],
  root: Uint8Array,
): boolean {
  const path = inclusionPath(leaf, index, size, proof);
  return path !== null && equal(path.at(-1)?.result ?? leaf, root);
}

/**
 * Whether the tree of `size1` is a beginning of that of `size2`. Equal sizes ask for equal roots and an empty proof. From
 * nothing to something there is no proof.
 */
export function isConsistent(
  size1: bigint,
  size2: bigint,
  root1: Uint8Array,
  root2: Uint8Array,
  proof: readonly Uint8Array[],
): boolean {
  if (size1 === size2) {
    return proof.length === 0 && equal(root1, root2);
  }
  if (size1 === 0n || size1 > size2) {
    return false;
  }
  let node = size1 - 1n;
  let last = size2 - 1n;
  while ((node & 1n) === 1n) {
    node >>= 1n;
    last >>= 1n;
  }
  const hashes = node === 0n ? [root1, ...proof] : proof;
  const [first, ...rest] = hashes;
  if (first === undefined) {
    return false;
  }
  let old = first;
  let all = first;
  for (const hash of rest) {
    if (last === 0n) {
      return false;
    }
    if ((node & 1n) === 1n || node === last) {
      old = nodeHash(hash, old);
      all = nodeHash(hash, all);
      while ((node & 1n) === 0n && node !== 0n) {
        node >>= 1n;
        last >>= 1n;
      }
    } else {
      all = nodeHash(all, hash);
    }
    node >>= 1n;
    last >>= 1n;
  }
  return last === 0n && equal(old, root1) && equal(all, root2);
}
