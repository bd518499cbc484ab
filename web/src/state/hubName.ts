// The name of the hub, as people type it: the host of the address, without the usual port.

/** "lab.example", "lab.example:8080"; its path if it is below one: "lab.example/gpus". */
export function hubNameOf({ hostname, port, pathname }: Pick<Location, "hostname" | "port" | "pathname">): string {
  const path = pathname.replace(/\/(index\.html)?$/, "");
  return `${hostname}${port === "" || port === "7070" ? "" : `:${port}`}${path}`;
}

export const hubName = typeof location === "undefined" ? "" : hubNameOf(location);
