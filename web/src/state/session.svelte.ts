// Who is signed in, and signing in and out.

import { ApiError, get, send } from "../feed/client";
import type { SessionInfo as Identity } from "../feed/types";
import { route } from "./route.svelte";

class Session {
  /** `null` until the hub has responded, and if it lets nobody in without signing in. */
  identity = $state.raw<Identity | null>(null);
  /** Whether the hub has responded. */
  isLoaded = $state(false);

  get isAdmin(): boolean {
    return this.identity?.role === "admin";
  }

  /** Whether the signed-in user is among these. */
  isMe(users: readonly string[] | null): boolean {
    return this.identity !== null && this.identity.how !== "open" && (users?.includes(this.identity.name) ?? false);
  }

  /** Whether the hub knows who they are: a person can queue and book. */
  get isPerson(): boolean {
    return Boolean(this.identity?.person);
  }

  /** Whether they signed in with a password; a proxy's user cannot sign out here. */
  get canSignOut(): boolean {
    return this.identity?.how === "session";
  }

  async load(): Promise<void> {
    try {
      this.identity = await get<Identity>("session");
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.identity = null;
    }
    this.isLoaded = true;
  }

  async signIn(name: string, password: string): Promise<void> {
    await send("POST", "session", { name, password });
    reload(route.returnAddress);
  }

  async signOut(): Promise<void> {
    await send("DELETE", "session");
    reload("#/");
  }
}

/** Reload the page, so that nothing shown to one user stays for the next. */
function reload(address: string): void {
  history.replaceState(null, "", address);
  location.reload();
}

export const session = new Session();
