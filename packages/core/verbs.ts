export { buildBase, getBase, requestBase } from "./base/index.ts";
export { makeSandbox, type Step } from "./base/make.ts";
export { addUsage, readCosts } from "./cost/index.ts";
export { claimWarm } from "./pool/index.ts";
export { removeLeftovers, requireRoom, takeSlot } from "./pool/slots.ts";
export { poolSchema, poolStats } from "./pool/stats.ts";
export { type ReapReport, reap, reapReportSchema } from "./reaper/index.ts";
export {
  decideLease,
  decideLife,
  decideRoom,
  filesOf,
  type LifeVerdict,
  type RoomVerdict,
  renewed,
  stillMaking,
} from "./session/decide.ts";
export { mustProbe, release, whoHolds } from "./session/release.ts";
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
export { deliverWebhook } from "./webhook/index.ts";
export { carryOut } from "./work.ts";
