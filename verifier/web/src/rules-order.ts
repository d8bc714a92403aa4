/** The log as its own clock: no round is known too early (PROTOCOL.md, 6.7, 6.10). */
import { type Anchor, anchors, type Case, SECOND, voidAnchor } from "./case.ts";
import { timeOf } from "./chains.ts";

export function checkOrder(given: Case): void {
  checkClock(given);
  const anchor = voidAnchor(given);
  for (const each of anchor === null ? anchors(given) : [...anchors(given), anchor]) {
    checkAnchor(given, each);
  }
}

/** No event is a second earlier than any round whose signature it or an earlier one holds (6.10). */
function checkClock({ session, chains, sights, findings }: Case): void {
  const known = new Map(sights.all.map((sight) => [sight.index, sight]));
  let newest = 0;
  for (const { entry, index } of session.events) {
    const sight = known.get(index);
    const chain = sight && chains.get(sight.chain);
    if (sight !== undefined && chain !== undefined) {
      newest = Math.max(newest, timeOf(chain, sight.round));
    }
    const late = entry.time >= newest - SECOND;
    findings.require(late, "unpredictable", "6.10", "it is earlier than a round that was known by then", index);
  }
}

/** No signature of a round ≥ R of the session's chain stands at or below the anchor (6.7). */
function checkAnchor({ sights, findings }: Case, { index, round }: Anchor): void {
  const newest = sights.newestUpTo(index);
  const text = `round ${newest} was in the log before all that round ${round} decides was pinned`;
  findings.require(newest < round, "unpredictable", "6.7", text, index);
}
