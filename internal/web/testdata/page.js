// Runs the page's script on the few parts of a document that it uses, with a
// clock and a board that are turned by hand. Exits 1 with what does not hold.
"use strict";
const fs = require("fs");
const assert = require("assert");

class Element {
  constructor() { this.own = ""; this.children = []; this.className = ""; this.style = {}; }
  set textContent(text) { this.own = String(text); this.children = []; }
  get textContent() { return this.own + this.children.map(c => c.textContent).join(" "); }
  set innerHTML(_) { throw new Error("innerHTML is used"); }
  append(...list) { this.children.push(...list); }
  replaceChildren(...list) { this.own = ""; this.children = list; }
}

const byID = {};
const document = {
  getElementById: id => byID[id] = byID[id] || new Element(),
  createElement: () => new Element(),
};
document.getElementById("alarm").textContent = "Nothing has been read from the board yet.";

let now = 0;
const performance = { now: () => now };
let ticks, next;
const setInterval = f => { ticks = f; };
const setTimeout = f => { next = f; };

const boardTime = Date.parse("2026-03-01T12:00:00Z");
const tank = { tank: "A", name: "<b>Reserve</b>", balance: 727, level_percent: 72.7, quality: "good", flags: [],
  complete: true, totals_complete: true, measured_at: "2026-03-01T11:59:50Z", stale: false };
let board;
const ok = doc => ({ status: 200, ok: true, headers: { get: () => new Date(boardTime).toUTCString() }, json: async () => doc });
const off = () => ({ status: 404, ok: false, headers: { get: () => new Date(boardTime).toUTCString() } });
const fetch = async path => {
  const answer = board[path];
  if (answer instanceof Error) throw answer;
  return answer;
};
const healthy = () => ({
  "api/tanks": ok([tank]),
  "api/status": ok({ version: "v1", digest: "abcd", revision: 4, outcomes: { applied: 3, quarantined: 1 },
    mqtt: { publisher: { connected: false, broker: "tcp://b:1883", last_error: "refused" } } }),
  "api/node": ok({ node: "ctl-1", clock: "synced", outbox: { pending: 7, oldest_age_s: 90 },
    sensors: [{ tank: "A", name: "probe", state: "fault", reason: "bus", since: "2026-03-01T11:00:00Z" }] }),
});

const settle = () => new Promise(resolve => setImmediate(() => setImmediate(resolve)));
const text = id => document.getElementById(id).textContent;

async function main() {
  board = healthy();
  new Function("document", "performance", "setInterval", "setTimeout", "fetch", "AbortSignal",
    fs.readFileSync(process.argv[2], "utf8"))(document, performance, setInterval, setTimeout, fetch, { timeout: () => null });
  await settle();
  assert.match(text("tanks"), /A<b>Reserve<\/b> 727\.0 g +72\.7 % good 10 s ago/);
  assert.equal(text("alarm"), "");
  assert.equal(document.getElementById("all").className, "");
  assert.match(text("delivery"), /NOT CONNECTED to tcp:\/\/b:1883: refused/);
  assert.match(text("delivery"), /7 events, the oldest for 90 s/);
  assert.match(text("delivery"), /applied 3 · quarantined 1/);
  assert.match(text("sensors"), /A probe fault: bus 60 min ago/);
  assert.equal(text("title"), "ctl-1 · oxyd v1");

  // A stale tank is said aloud; what is not known is not made up.
  board["api/tanks"] = ok([{ ...tank, stale: true, balance: null, level_percent: null, measured_at: null, complete: false }]);
  now = 2000; next(); await settle();
  assert.match(text("alarm"), /Not measured for too long: A/);
  assert.match(text("tanks"), /unknown unknown incomplete STALE: never/);

  // What an operator has to see to is there, of the account and of the node.
  board["api/status"] = ok({ alarms: [{ kind: "gap", text: "tank A lacks number 6", since: "2026-03-01T11:00:00Z" }] });
  next(); await settle();
  assert.match(text("delivery"), /Alarm: gap tank A lacks number 6 \(since 2026-03-01T11:00:00Z\)/);

  // A board that falls silent: at first a lost answer, then it is said.
  for (const path in board) board[path] = new TypeError("fetch failed");
  now = 4000; next(); await settle();
  now = 8500; ticks();
  assert.match(text("alarm"), /The board has not answered for 7 s \(fetch failed\).*of 2026-03-01T12:00:00/);
  assert.equal(document.getElementById("all").className, "old");

  // A 500 is no answer either, and one document is not enough.
  board = healthy();
  board["api/tanks"] = { status: 500, ok: false, headers: { get: () => "" } };
  next(); await settle();
  assert.match(text("alarm"), /api\/tanks gave 500/);

  // It comes back.
  board = healthy();
  next(); await settle();
  assert.equal(text("alarm"), "");
  assert.equal(document.getElementById("all").className, "");

  // A node without a ledger.
  board["api/tanks"] = off();
  next(); await settle();
  assert.equal(text("no-tanks"), "This node keeps no account.");
  assert.equal(text("alarm"), "");
}

main().catch(e => { console.error(e); process.exit(1); });
