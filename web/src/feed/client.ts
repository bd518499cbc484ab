// The HTTP client for the hub's API: everything except the stream.

import type { ErrorBody } from "./types";

/** An error response of the hub; status 0 means that the hub could not be reached. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

/** Called when the hub refuses a request that needs a session: it has ended. */
let onUnauthorized = (): void => undefined;

export function watchSession(callback: () => void): void {
  onUnauthorized = callback;
}

type Method = "GET" | "POST" | "PATCH" | "DELETE";

/** GET a path below /api/v1/ and parse the JSON; throws `ApiError`. */
export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await request("GET", path, undefined, signal)).json() as Promise<T>;
}

/** Send a change and parse the response, which is `undefined` for 204; throws `ApiError`. */
export async function send<T = undefined>(method: Exclude<Method, "GET">, path: string, body: unknown = {}): Promise<T> {
  const response = await request(method, path, body);
  return (response.status === 204 ? undefined : await response.json()) as T;
}

async function request(method: Method, path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(`api/v1/${path}`, {
      method,
      cache: "no-store",
      ...(signal && { signal }),
      ...(body !== undefined && { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "unreachable", "cannot reach the hub");
  }
  if (response.status === 401 && path !== "session") onUnauthorized();
  if (!response.ok) throw await errorOf(response);
  return response;
}

async function errorOf(response: Response): Promise<ApiError> {
  try {
    const { error } = (await response.json()) as ErrorBody;
    return new ApiError(response.status, error.code, error.message);
  } catch {
    // A proxy in between responds in its own format.
    return new ApiError(response.status, "http_error", `the hub responded with HTTP ${response.status}`);
  }
}
