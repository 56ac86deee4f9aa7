export { buildBase, getBase, requestBase } from "./base/index.ts";
export { makeSandbox, type Step } from "./base/make.ts";
export { addUsage, countUsage, readCosts } from "./cost/index.ts";
export { claimWarm } from "./pool/index.ts";
export { confirmSlot, giveBackSlot, makeUserRoom, takeSlot, takeWarmSlot } from "./pool/slots.ts";
export { poolSchema, poolStats } from "./pool/stats.ts";
export { type ReapReport, reap, reapReportSchema } from "./reaper/index.ts";
export {
  decideLease,
  decideLife,
  decideRoom,
  giveUp,
  type LifeVerdict,
  type RoomVerdict,
  renewed,
} from "./session/decide.ts";
export { release, whoHolds } from "./session/release.ts";
export {
  deleteSession,
  getSession,
  listSessions,
  noSuchSession,
  requestSession,
  resetSession,
  showSession,
} from "./session/verbs.ts";
export { sessionViewSchema } from "./session/view.ts";
export * from "./task/index.ts";
export { fromWorkingDirectory } from "./task/launch.ts";
export { carryOut } from "./work.ts";
