export { Client, type CallOptions, type ClientOptions, newKey } from "./client.js";
export type { Kind } from "./codes.js";
export type { Clock } from "./clock.js";
export {
  type Figures,
  Internal,
  LeaseLost,
  Never,
  NotReleased,
  NotAllowed,
  NotNow,
  PlimsollError,
  QueueTimeout,
  StillWaiting,
  TicketRejected,
  Unreachable,
} from "./errors.js";
export type { Lease } from "./lease.js";
export type { Admitted, Ask, WaitOptions } from "./options.js";
export type { Fetch } from "./transport.js";
export type {
  Admission,
  AdmissionState,
  Code,
  Decision,
  Problem,
  Redemption,
  Scope,
  TicketReason,
  TicketRequest,
  Waiting,
  WaitMode,
} from "./wire.js";
