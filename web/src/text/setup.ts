// The words of the set-up page.

import { duration } from "./words";

/** The twin of hub/tokens.py: what may be told of a token. */
export interface Token {
  id: string;
  role: "node" | "viewer" | "admin" | "join";
  note: string;
  created_at: number;
  used_at: number | null;
  expires_at: number | null;
  uses_left: number | null;
}

/** For whom a token can be made, and what they may do. */
export const ROLES = {
  viewer: "may look at everything",
  admin: "may also name and remove machines, and make tokens",
  join: "lets machines join, and is good for nothing else",
} as const;

const ROLE_NAMES: Record<string, string> = { viewer: "a viewer", admin: "an admin", join: "machines that join", node: "one machine" };

export function roleOf(role: string): string {
  return ROLE_NAMES[role] ?? role;
}

/** When a token was used, and how long it is good. */
export function useOf({ used_at, expires_at, uses_left, created_at }: Token, now: number): string {
  const parts = [used_at === null ? `never used, made ${duration(now - created_at)} ago` : `used ${duration(now - used_at)} ago`];
  if (expires_at !== null) parts.push(`good for ${duration(expires_at - now)}`);
  if (uses_left !== null) parts.push(`${uses_left} uses left`);
  return parts.join(" · ");
}
