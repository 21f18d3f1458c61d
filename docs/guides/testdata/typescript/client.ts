import createClient from "openapi-fetch";
import type { components, paths } from "./node.js";

export type Entry = components["schemas"]["basket.Entry"];
export type Failure = components["schemas"]["Error"];

export function connect(url: string, token: string) {
  return createClient<paths>({
    baseUrl: url,
    headers: { Authorization: `Bearer ${token}` },
    pathSerializer: (path, values) => path.replace(/{(\w+)}/g, (_, name) => String(values[name])),
  });
}

// key writes the parts of an actor's key for a path.
export function key(...parts: string[]): string {
  return parts.map((part) => encodeURIComponent(part).replace(/^(~|\.{0,2}$|-$)/, "~$1")).join("/");
}

export async function fill(url: string, token: string, entries: Entry[]): Promise<number> {
  const node = connect(url, token);
  let n = 0;
  for (const entry of entries) {
    const { data, error } = await node.POST("/actors/basket/{key}/-/call/add", {
      params: { path: { key: key("shop", "ann") }, header: { "Idempotency-Key": crypto.randomUUID() } },
      body: entry,
    });
    if (error) throw new Refused(error);
    n = data;
  }
  return n;
}

export class Refused extends Error {
  constructor(readonly failure: Failure) {
    super(failure.message);
  }
}
