// Texts of the setup page.

import type { Token } from "../feed/types";
import { duration } from "./format";

/** The roles a token can be created for, and what they allow. */
export const ROLES = {
  viewer: "can view everything",
  admin: "can also rename and remove nodes, and create tokens",
  join: "can only add nodes",
} as const;

const ROLE_NAMES: Record<string, string> = { viewer: "viewer", admin: "admin", join: "join", node: "node" };

export function roleName(role: string): string {
  return ROLE_NAMES[role] ?? role;
}

/** When a token was last used and when it expires. */
export function tokenUse({ used_at, expires_at, uses_left, created_at }: Token, now: number): string {
  const parts = [used_at === null ? `never used, created ${duration(now - created_at)} ago` : `used ${duration(now - used_at)} ago`];
  if (expires_at !== null) parts.push(`expires in ${duration(expires_at - now)}`);
  if (uses_left !== null) parts.push(`${uses_left} uses left`);
  return parts.join(" · ");
}
