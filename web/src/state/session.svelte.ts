// Who the reader is to the hub, and signing in and out.

import { NotGranted, ask, change } from "../feed/ask";

export interface Who {
  name: string;
  role: "viewer" | "admin" | "node";
  /** By what the hub knows them; "open" is nobody in particular. */
  how: "token" | "session" | "proxy" | "open";
}

class Session {
  /** `null` until the hub has said, and where it lets nobody in unasked. */
  who = $state.raw<Who | null>(null);
  /** Whether the hub has said. */
  isKnown = $state(false);

  get isAdmin(): boolean {
    return this.who?.role === "admin";
  }

  /** Whether it was a password that let them in, so that they can go again. */
  get canSignOut(): boolean {
    return this.who?.how === "session";
  }

  async load(): Promise<void> {
    try {
      this.who = await ask<Who>("session");
    } catch (error) {
      if (!(error instanceof NotGranted)) throw error;
      this.who = null;
    }
    this.isKnown = true;
  }

  async signIn(name: string, password: string): Promise<void> {
    await change("POST", "session", { name, password });
    anew();
  }

  async signOut(): Promise<void> {
    await change("DELETE", "session");
    anew();
  }
}

/** Nothing that one person was shown stays for the next. */
function anew(): void {
  history.replaceState(null, "", "#/");
  location.reload();
}

export const session = new Session();
