// What must not compile. Nobody calls this function.
import { connect, type Entry } from "./client.js";

export async function mistakes() {
  const node = connect("http://localhost:6420", "token");
  const params = { path: { key: "ann" } };

  // @ts-expect-error The type has no such method.
  await node.POST("/actors/basket/{key}/-/call/remove", { params });

  // @ts-expect-error The node has no such type.
  await node.POST("/actors/cart/{key}/-/call/add", { params, body: { article: "bolt", n: 1 } });

  // @ts-expect-error An entry has no such member.
  const entry: Entry = { article: "bolt", count: 1 };
  // @ts-expect-error The same in a body.
  await node.POST("/actors/basket/{key}/-/call/add", { params, body: { article: "bolt", count: 1 } satisfies Entry });

  // @ts-expect-error n is a number.
  await node.POST("/actors/basket/{key}/-/call/add", { params, body: { article: "bolt", n: "1" } });

  // @ts-expect-error The method has an input.
  await node.POST("/actors/basket/{key}/-/call/add", { params });

  // @ts-expect-error The method has no input.
  await node.POST("/actors/basket/{key}/-/call/empty", { params, body: { all: true } });

  // @ts-expect-error Calls are POST.
  await node.GET("/actors/basket/{key}/-/call/entries", { params });

  // @ts-expect-error A call names an actor.
  await node.POST("/actors/basket/{key}/-/call/entries", {});

  const { data, error } = await node.POST("/actors/basket/{key}/-/call/add", { params, body: { article: "bolt", n: 1 } });
  // @ts-expect-error The output is a number.
  const text: string | undefined = data;
  // @ts-expect-error There is no such code.
  const missing = error?.code === "missing";
  return [entry, text, missing];
}
