// Compiles KeccakDice.sol with a contract around it, and runs calls in an EVM.
// In: {"source", "calls": [{"word", "index", "n", "width", "count"}]}; n = 0: dice. Out: [{"values", "word", "index"} or null].
import { createEVM } from "@ethereumjs/evm";
import { readFileSync } from "node:fs";
import solc from "solc";

const WRAPPER = `// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;
import "KeccakDice.sol";

contract Wrapper {
    function run(bytes32 word, uint256 index, uint256[] calldata n, uint256[] calldata width)
        external pure returns (uint256[] memory values, bytes32, uint256)
    {
        KeccakDice.State memory state = KeccakDice.State(word, index);
        values = new uint256[](n.length);
        for (uint256 i = 0; i < n.length; i++) {
            values[i] = n[i] == 0
                ? KeccakDice.roll(state)
                : KeccakDice.uniform(state, n[i], width[i] == 0 ? KeccakDice.fewest(n[i]) : width[i]);
        }
        return (values, state.word, state.index);
    }

    function rolls(bytes32 word, uint256 count) external pure returns (uint8[] memory) {
        return KeccakDice.roll(KeccakDice.State(word, 0), count);
    }
}`;

const { source, calls } = JSON.parse(readFileSync(0, "utf8"));
const input = {
  language: "Solidity",
  sources: { "KeccakDice.sol": { content: source }, "Wrapper.sol": { content: WRAPPER } },
  settings: { optimizer: { enabled: true }, outputSelection: { "*": { "*": ["evm.deployedBytecode.object", "evm.methodIdentifiers"] } } },
};
const compiled = JSON.parse(solc.compile(JSON.stringify(input)));
const complaints = (compiled.errors ?? []).map((error) => error.formattedMessage);
if (complaints.length > 0) {
  throw new Error(complaints.join("\n"));
}
const { evm } = compiled.contracts["Wrapper.sol"].Wrapper;
const code = Buffer.from(evm.deployedBytecode.object, "hex");
const selector = Object.entries(evm.methodIdentifiers).find(([name]) => name.startsWith("run("))[1];

const word = (value) => BigInt(value).toString(16).padStart(64, "0");
const list = (values) => word(values.length) + values.map(word).join("");
const machine = await createEVM();
const answers = [];
for (const { word: start, index, n, width } of calls) {
  const first = list(n);
  const head = start + word(index) + word(128) + word(128 + first.length / 2);
  const data = Buffer.from(selector + head + first + list(width), "hex");
  const { returnValue, exceptionError } = await machine.runCode({ code, data, gasLimit: 1_000_000_000n });
  if (exceptionError !== undefined) {
    answers.push(null);
    continue;
  }
  const words = Buffer.from(returnValue).toString("hex").match(/.{64}/g);
  const at = Number(BigInt(`0x${words[0]}`)) / 32;
  const count = Number(BigInt(`0x${words[at]}`));
  const values = words.slice(at + 1, at + 1 + count).map((one) => BigInt(`0x${one}`).toString());
  answers.push({ values, word: words[1], index: Number(BigInt(`0x${words[2]}`)) });
}
process.stdout.write(JSON.stringify(answers));
