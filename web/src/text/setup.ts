// Texts of the setup page.

import type { JoinLine, Token } from "../feed/types";
import type { Node } from "../state/fleet";
import { duration, plural } from "./format";
import { modelNames } from "./grid";

/** The roles a token can be created for, and what they allow. */
export const ROLES = {
  viewer: "can view everything",
  admin: "can also rename and remove nodes, and create tokens",
  join: "can only add nodes",
} as const;

/** The roles of an account. */
export const USER_ROLES = {
  viewer: "can view everything",
  admin: "can also add and remove machines, accounts and tokens",
} as const;

const ROLE_NAMES: Record<string, string> = { viewer: "viewer", admin: "admin", join: "join", node: "node" };

export function roleName(role: string): string {
  return ROLE_NAMES[role] ?? role;
}

/** When a token was last used and when it expires. */
export function tokenUse({ used_at, expires_at, uses_left, created_at }: Token, now: number): string {
  const parts = [used_at === null ? `never used, created ${duration(now - created_at)} ago` : `used ${duration(now - used_at)} ago`];
  if (expires_at !== null) parts.push(`expires in ${duration(expires_at - now)}`);
  if (uses_left !== null) parts.push(`${plural(uses_left, "use")} left`);
  return parts.join(" · ");
}

export const INSTALL_COMMAND = "pip install fleet-smi";
export const SSH_COMMAND = "fleet-smi join gpu01 gpu02 'lab-*'";

/** What the line to paste does, and how long it is valid. */
export function pasteNote(made: JoinLine | null): string {
  const does = "Installs the agent from this hub, joins, and starts it as a service: for the machine as root, else for you. Python 3.10 or newer, no internet.";
  if (made === null) return does;
  const valid = `It is shown only once, and ${made.limits}.`;
  return made.install_line === null ? `Python 3.10 or newer, no root. ${valid}` : `${does} ${valid} The long number is the checksum of the script that it runs.`;
}

/** The command that runs the agent of a join command as a service. */
export function serviceCommand(joinCommand: string): string {
  return `${joinCommand.replace("| fleet-smi agent ", "| sudo fleet-smi service install agent ")} --join-first`;
}

/** "gpu07 joined, 8 × H100 80GB HBM3". */
export function joinedText({ info }: Node): string {
  return info.gpus.length ? `${info.name} joined, ${info.gpus.length} × ${modelNames({ info })}` : `${info.name} joined, no GPU found`;
}

/** "9 s ago. Driver 560.35, all 8 readable". */
export function joinedNote({ info, figures }: Node, now: number): string {
  const readable = info.gpus.filter(({ verdict }) => verdict.state !== "unknown").length;
  const driver = info.driver_version === null ? "" : ` Driver ${info.driver_version},`;
  const all = readable === info.gpus.length ? `all ${readable}` : `${readable} of ${info.gpus.length}`;
  return `${duration(now - (figures.reportedAt ?? now))} ago.${driver} ${info.gpus.length ? `${all} readable.` : ""}`.trim();
}
