// Generated from the hub's OpenAPI document by web/generate_types.py. Do not edit.
// After a change to the API run: python web/build.py types

export interface AgentState {
  hub_version: string;
  now: number;
  agent_version: string | null;
  reported_at: number | null;
}

export interface BookingCheck {
  conflicts: Conflict[];
  free_gpus: number | null;
  fits_at: number | null;
  in_the_way: string[];
  closed: string | null;
}

export interface BriefOffer {
  taken_at: number;
  summary: Summary;
  wanted: number;
  offered: OfferedDevice[];
  refused: Rejection[];
  unmet: string | null;
  reason: string;
  expected: Expected | null;
}

export interface Candidate {
  node_id: string;
  node: string;
  index: number;
  uuid: string;
  vendor: "amd" | "intel" | "nvidia";
  model: string | null;
  gpu: JudgedGpu;
  instance: JudgedInstance | null;
  free_memory_bytes: number | null;
  temperature_celsius: number | null;
  taken_beside: number;
  part: number | null;
  node_label: string | null;
  ssh_host: string | null;
}

export interface Closing {
  id: string;
  node_id: string | null;
  uuid: string | null;
  label: string | null;
  until: number | null;
  note: string;
  by: string;
  created_at: number;
}

export interface ClosingList {
  closings: Closing[];
}

export interface CollectorRun {
  name: string;
  outcome: "absent" | "failed" | "ok";
  seconds: number;
  detail: string;
  fault: "lost" | "mismatch" | "missing" | "needs_reset" | "not_answering" | "slow" | "unreadable" | null;
}

export interface Conflict {
  starts_at: number;
  ends_at: number;
  booked: number;
  gpus: number;
  owners: string[];
}

export interface Diagnosis {
  taken_at: number;
  target: string;
  gpus: number;
  findings: SlowdownFinding[];
}

export interface ErrorBody {
  error: ErrorDetail;
}

export interface ErrorDetail {
  code: string;
  message: string;
}

export interface Event {
  taken_at: number;
  summary: Summary;
  nodes: NodePayload[];
  removed: number[];
  figures: NodeFiguresDiff[];
}

export interface Expected {
  by: number | null;
  of_ten: number | null;
  not_before: number | null;
}

export interface Fault {
  kind: "lost" | "mismatch" | "missing" | "needs_reset" | "not_answering" | "slow" | "unreadable";
  detail: string;
  remedy: string | null;
  since: number | null;
}

export interface FeedAddress {
  url: string;
}

export interface Figure {
  minimum: (number | null)[];
  mean: (number | null)[];
  maximum: (number | null)[];
}

export interface FleetOverview {
  taken_at: number;
  summary: Summary;
  nodes: NodeSummary[];
  hub_version: string | null;
  behind: string[];
}

export interface FleetPage {
  taken_at: number;
  summary: Summary | null;
  nodes: NodeView[];
  next: string | null;
}

export interface FleetSummary {
  taken_at: number;
  summary: Summary;
  user: string | null;
  mine: number | null;
  mine_idle: number | null;
}

export interface Gap {
  start: number;
  end: number | null;
  why: string;
}

export interface GpuOccupancies {
  gpu: GpuOfNode;
  occupancies: Occupancy[];
}

export interface GpuOfNode {
  uuid: string;
  node_id: string;
  node: string;
  index: number;
  vendor: "amd" | "intel" | "nvidia";
  model: string | null;
  memory_total_bytes: number | null;
  parent: string | null;
}

export interface GpuPayload {
  uuid: string;
  index: number;
  vendor: "amd" | "intel" | "nvidia";
  name: string | null;
  memory_total_mebibytes: number | null;
  nominal_gigabytes: number | null;
  verdict: VerdictPayload;
  instances: InstancePayload[];
}

export interface GpuPeriods {
  gpu: GpuOfNode;
  periods: Period[];
}

export interface GrainRetention {
  grain_seconds: number;
  keep_seconds: number;
}

export interface Holder {
  pid: number;
  user: string;
  group: string | null;
  name: string | null;
  command: string | null;
  container: string | null;
  slurm_job: string | null;
  started_at: number | null;
  memory_bytes: number | null;
}

export interface Holding {
  user: string;
  node: NodeView;
  gpu: JudgedGpu;
  processes: Process[];
  memory_bytes: number | null;
  busy_percent: number | null;
  idle: boolean;
  idle_seconds: number | null;
}

export interface Host {
  addresses: string[];
  interfaces: Record<string, string>;
  kernel: string | null;
  driver_version: string | null;
  cuda_version: string | null;
  booted_at: number | null;
  cpu_count: number | null;
  cpu_percent: number | null;
  load_1_minute: number | null;
  load_5_minutes: number | null;
  load_15_minutes: number | null;
  memory_used_bytes: number | null;
  memory_total_bytes: number | null;
  pid_namespace: boolean | null;
}

export interface HubProblem {
  kind: "cluster" | "credentials" | "disk" | "history" | "nodes" | "otlp" | "remote_write";
  message: string;
  detail: string;
  remedy: string;
  since: number;
}

export interface IdentityProof {
  proof: string;
}

export interface InstancePayload {
  uuid: string;
  profile: string | null;
  memory_total_mebibytes: number | null;
  nominal_gigabytes: number | null;
  verdict: VerdictPayload;
}

export interface Job {
  id: string;
  user: string;
  command: string | null;
  start: number;
  end: number | null;
  gpus: number;
  sums: Sums;
  certain: boolean;
  places: string[];
  advice: string[];
  parts: JobPart[];
}

export interface JobPart {
  gpu: GpuOfNode;
  occupancy: Occupancy;
}

export interface Jobs {
  start: number;
  end: number;
  rows: Job[];
}

export interface JoinLine {
  id: string;
  line: string;
  install_line: string | null;
  limits: string;
}

export interface Joined {
  token: string;
}

export interface JudgedGpu {
  uuid: string;
  uuid_is_made: boolean;
  index: number;
  vendor: "amd" | "intel" | "nvidia";
  name: string | null;
  pci_bus_id: string | null;
  memory_used_bytes: number | null;
  memory_total_bytes: number | null;
  memory_shared: boolean;
  busy_percent: number | null;
  memory_busy_percent: number | null;
  encoder_percent: number | null;
  decoder_percent: number | null;
  temperature_celsius: number | null;
  fan_percent: number | null;
  power_watts: number | null;
  power_limit_watts: number | null;
  sm_clock_mhz: number | null;
  sm_clock_max_mhz: number | null;
  memory_clock_mhz: number | null;
  memory_clock_max_mhz: number | null;
  performance_state: string | null;
  throttle_reasons: string[] | null;
  ecc_corrected: number | null;
  ecc_uncorrected: number | null;
  ecc_contained: boolean | null;
  reset_pending: string | null;
  pcie_generation: number | null;
  pcie_generation_max: number | null;
  pcie_width: number | null;
  pcie_width_max: number | null;
  pcie_rx_bytes_per_second: number | null;
  pcie_tx_bytes_per_second: number | null;
  nvlink_links: number | null;
  nvlink_links_active: number | null;
  nvlink_rx_bytes_per_second: number | null;
  nvlink_tx_bytes_per_second: number | null;
  memory_temperature_celsius: number | null;
  energy_joules: number | null;
  persistence: boolean | null;
  compute_mode: string | null;
  mig_mode: boolean | null;
  asleep: boolean;
  instances: JudgedInstance[];
  processes: Process[] | null;
  more_processes: number;
  processes_hidden: boolean;
  reported_by: string | null;
  fault: Fault | null;
  lease: Lease | null;
  unread: Record<string, string>;
  verdict: Verdict;
}

export interface JudgedInstance {
  uuid: string;
  uuid_is_made: boolean;
  gpu_instance_id: number | null;
  compute_instance_id: number | null;
  profile: string | null;
  memory_used_bytes: number | null;
  memory_total_bytes: number | null;
  busy_percent: number | null;
  processes: Process[] | null;
  more_processes: number;
  lease: Lease | null;
  unread: Record<string, string>;
  verdict: Verdict;
}

export interface Lease {
  holder: string;
  taken_at: number;
  scheduler: string | null;
  job: string | null;
  uid: number | null;
  pid: number | null;
  until: number | null;
  command: string | null;
  note: string | null;
}

export interface LeaseList {
  taken_at: number;
  leases: LeaseRow[];
  without: number;
}

export interface LeaseRow {
  node: string;
  label: string;
  uuid: string;
  holder: string;
  state: "broken" | "busy" | "free" | "ghost" | "held" | "leased" | "unknown";
  lease: Lease | null;
}

export interface Meaning {
  terms: Term[];
  error: string | null;
}

export interface NodeBooking {
  id: string;
  owner: string;
  gpus: number;
  starts_at: number;
  ends_at: number;
  is_active: boolean;
  kept: string[];
  missing: number;
  in_the_way: string[];
}

export type NodeFiguresDiff = [number, number | null, number | "=" | null, number | "=" | null, ([number | "=" | null, number | "=" | null, number | "=" | null, number | "=" | null] | "=")[]];

export interface NodePayload {
  number: number;
  node_id: string;
  name: string;
  silent: boolean;
  via: string | null;
  trouble: string | null;
  warnings: number;
  ssh_host: string | null;
  labels: Record<string, string>;
  driver_version: string | null;
  site: string | null;
  bookings: NodeBooking[];
  gpus: GpuPayload[];
}

export interface NodeSummary {
  node_id: string;
  name: string;
  site: string | null;
  silent: boolean;
  reported_at: number | null;
  via: string | null;
  warnings: string[];
  failures: string[];
  limits: string[];
  missing_reports: number;
  labels: Record<string, string>;
  driver_version: string | null;
  agent_version: string | null;
  models: Record<string, number>;
  states: ("broken" | "busy" | "free" | "ghost" | "held" | "leased" | "unknown")[];
  busy_percent: number | null;
  memory_percent: number | null;
  users: UserCount[];
}

export interface NodeView {
  node_id: string;
  name: string;
  site: string | null;
  taken_at: number | null;
  age_seconds: number | null;
  silent: boolean;
  via: string | null;
  trouble: string | null;
  clock_skew_seconds: number | null;
  missing_reports: number;
  ssh_host: string | null;
  labels: Record<string, string>;
  interval_seconds: number | null;
  sequence: number;
  boot_id: string | null;
  agent_version: string | null;
  host: Host;
  runs: CollectorRun[];
  bookings: NodeBooking[];
  gpus: JudgedGpu[];
}

export interface NodesView {
  taken_at: number;
  summary: Summary;
  nodes: NodeView[];
  problems: HubProblem[];
  refused: RefusedSender[];
}

export interface Note {
  kind: "booked" | "closed" | "display" | "hidden" | "idle_user" | "memory_errors" | "reset_pending" | "shared" | "stalled" | "throttled" | "unaccounted" | "vacated" | "without_lease";
  words: string;
  user: string | null;
  idle_seconds: number | null;
}

export interface Occupancies {
  start: number;
  end: number;
  rows: GpuOccupancies[];
}

export interface Occupancy {
  holder: Holder;
  start: number;
  end: number | null;
  certain: boolean;
  sums: Sums;
  mean_memory_bytes: number | null;
  peak_memory_bytes: number | null;
}

export interface Offer {
  taken_at: number;
  summary: Summary;
  wanted: number;
  offered: Candidate[];
  refused: Rejection[];
  unmet: string | null;
  reason: string;
  expected: Expected | null;
}

export interface OfferedDevice {
  node_id: string;
  node: string;
  index: number;
  uuid: string;
  part: number | null;
  uuid_is_made: boolean;
  node_label: string | null;
  ssh_host: string | null;
  model: string | null;
  verdict: Verdict | null;
  free_memory_bytes: number | null;
  temperature_celsius: number | null;
}

export interface Overbooking {
  node_id: string;
  starts_at: number;
  ends_at: number;
  booked: number;
  gpus: number;
}

export interface PeopleView {
  taken_at: number;
  summary: Summary;
  people: Person[];
  holdings: Holding[];
  silent: string[];
  failures: string[];
}

export interface Period {
  start: number;
  end: number | null;
  state: "broken" | "busy" | "free" | "ghost" | "held" | "leased" | "unknown";
  reason: string;
  holders: Holder[];
  certain: boolean;
  busy_percent: number | null;
}

export interface Periods {
  start: number;
  end: number;
  rows: GpuPeriods[];
}

export interface Person {
  user: string;
  seen: boolean;
  gpus: number;
  nodes: string[];
  memory_bytes: number | null;
  busy_percent: number | null;
  idle_gpus: number;
  idle_seconds: number | null;
  since: number | null;
}

export interface PersonalTokenList {
  tokens: Token[];
}

export interface PersonalTokenMade {
  id: string;
  token: string;
  person: string;
  role: "admin" | "viewer";
}

export interface Problems {
  problems: HubProblem[];
  refused: RefusedSender[];
}

export interface Process {
  pid: number;
  pid_is_made: boolean;
  parent_pid: number | null;
  kind: "compute" | "compute+graphics" | "graphics" | "mps";
  gpu_memory_bytes: number | null;
  user: string | null;
  uid: number | null;
  group: string | null;
  name: string | null;
  command: string | null;
  started_at: number | null;
  busy_percent: number | null;
  cpu_percent: number | null;
  host_memory_bytes: number | null;
  container: string | null;
  pod: string | null;
  slurm_job: string | null;
  condition: "uninterruptible" | "zombie" | null;
  hidden: boolean;
}

export interface QueueOffer {
  node_id: string;
  node: string;
  uuids: string[];
  labels: string[];
  made_at: number;
  until: number;
  ssh_host: string | null;
}

export interface QueueRequest {
  count: number;
  min_free_bytes: number;
  model: string | null;
  vendor: "amd" | "intel" | "nvidia" | null;
  where: string;
  uuids: string[];
  max_hours: number | null;
  note: string | null;
  kind: "page" | "run" | "wait";
  keep_seconds: number;
  ignore_bookings: boolean;
}

export interface QueueRow {
  id: string;
  person: string;
  wants: string;
  why: string;
  arrived_at: number;
  place: number | null;
  band: "high" | "low" | "normal";
  request: QueueRequest;
  offer: QueueOffer | null;
  expected: Expected;
  use_hours: number | null;
  own: boolean;
}

export interface QueueView {
  taken_at: number;
  rows: QueueRow[];
  person: string | null;
}

export interface Receipt {
  hub: string;
  kept: number | null;
  interval_seconds: number | null;
  recorded: boolean;
  versions: number[];
}

export interface RefusedSender {
  address: string;
  node_id: string | null;
  name: string | null;
  reason: string;
  remedy: string;
  attempts: number;
  last_at: number;
}

export interface Rejection {
  node: string;
  words: string;
  index: number | null;
  uuid: string | null;
  part: number | null;
}

export interface ReservationInfo {
  id: string;
  owner: string;
  node_id: string;
  node: string;
  gpus: number;
  starts_at: number;
  ends_at: number;
  note: string;
  state: "active" | "cancelled" | "past" | "released" | "upcoming";
  used: boolean;
  editable: boolean;
  node_known: boolean;
  missing: number;
  in_the_way: string[];
}

export interface ReservationList {
  taken_at: number;
  person: string | null;
  may_book: boolean;
  reservations: ReservationInfo[];
  overbooked: Overbooking[];
}

export interface Ribbon {
  start: number;
  end: number;
  moments: RibbonPoint[];
  gaps: Gap[];
}

export interface RibbonPoint {
  at: number;
  nodes: number;
  nodes_reporting: number;
  gpus: Record<string, number>;
}

export interface Series {
  start: number;
  grain_seconds: number;
  node: Record<string, Figure>;
  gpus: Record<string, Record<string, Figure>>;
}

export interface SessionInfo {
  name: string;
  role: "admin" | "node" | "viewer";
  how: string;
  person: string | null;
}

export interface SlowdownFinding {
  kind: "clock" | "host_cpu" | "host_memory" | "hot" | "link" | "low_load" | "memory_full" | "note" | "power_limit" | "processes" | "silent" | "state" | "straggler" | "throttled";
  severity: "info" | "problem" | "warning";
  node: string;
  text: string;
  gpu: string | null;
}

export interface StorageStatus {
  oldest: number | null;
  used_bytes: number;
  most_bytes: number;
  grains: GrainRetention[];
  ledger_keep_seconds: number;
  gaps: Gap[];
  trouble: string | null;
  energy_price: number | null;
  currency: string | null;
}

export interface Strip {
  gpu: GpuOfNode;
  runs: StripRun[];
}

export interface StripRun {
  start: number;
  end: number;
  state: "broken" | "busy" | "free" | "ghost" | "held" | "leased" | "unknown";
  user: string;
  others: number;
  busy_percent: number | null;
}

export interface Strips {
  start: number;
  end: number;
  columns: number;
  rows: Strip[];
  history_begins: number | null;
}

export interface Summary {
  gpus: number;
  free: number;
  leased: number;
  busy: number;
  held: number;
  ghost: number;
  broken: number;
  unknown: number;
  nodes: number;
  nodes_reporting: number;
  free_instances: number;
}

export interface Sums {
  gpu_seconds: number;
  measured_seconds: number;
  busy_seconds: number;
  idle_seconds: number;
  energy_joules: number;
}

export interface Term {
  key: "driver" | "gpu" | "label" | "model" | "node" | "site" | "state" | "user" | "uuid" | "why" | "word" | "idle" | "load" | "mem" | "power" | "temp" | "total" | "used";
  op: ":" | "<" | "<=" | ">" | ">=";
  values: string[];
  bound: number | null;
  negated: boolean;
}

export interface Token {
  id: string;
  role: "admin" | "join" | "node" | "viewer";
  note: string;
  node_id: string | null;
  created_at: number;
  used_at: number | null;
  expires_at: number | null;
  uses_left: number | null;
  revoked_at: number | null;
  person: string | null;
}

export interface TokenList {
  tokens: Token[];
}

export interface TokenMade {
  id: string;
  token: string;
}

export interface Usage {
  name: string;
  sums: Sums;
  daily: number[];
  node_id: string | null;
}

export interface Usages {
  start: number;
  end: number;
  by: string;
  rows: Usage[];
  total: Sums;
  by_state: Record<string, number>;
  history_begins: number | null;
  unwritten: Gap | null;
}

export interface User {
  name: string;
  role: "admin" | "viewer";
  created_at: number;
}

export type UserCount = [string, number, number];

export interface UserList {
  users: User[];
}

export interface Verdict {
  state: "broken" | "busy" | "free" | "ghost" | "held" | "leased" | "unknown";
  reason: string;
  since: number;
  was: string | null;
  notes: Note[];
  idle_seconds: number | null;
}

export interface VerdictPayload {
  state: "broken" | "busy" | "free" | "ghost" | "held" | "leased" | "unknown";
  since: number;
  reason: string | null;
  was: string | null;
  users: string[] | null;
  idle_since: number | null;
  notes: ("booked" | "closed" | "display" | "hidden" | "idle_user" | "memory_errors" | "reset_pending" | "shared" | "stalled" | "throttled" | "unaccounted" | "vacated" | "without_lease")[];
}
