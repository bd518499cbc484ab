// The requests of a form, and why the hub refused the last one.

import { ApiError } from "../feed/client";

export class Submission {
  /** Why the last request failed; empty if it succeeded. */
  error = $state("");

  /** Run requests and return whether they succeeded; what is not an answer of the hub is thrown. */
  async run(action: () => Promise<unknown>): Promise<boolean> {
    try {
      await action();
      this.error = "";
      return true;
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      this.error = failure.message;
      return false;
    }
  }
}
