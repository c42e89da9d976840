/** Types of the host's interface, by the names that its OpenAPI document has. */
import type { Exact } from "./exact_json";
import type { components, operations } from "./schema";

type Schemas = components["schemas"];
type Content<T> = T extends { content: { "application/json": infer Found } } ? Found : undefined;

/** Names of the calls that go over a WebSocket, and others. */
export type CallName = keyof operations;

/** What a call takes as its body. */
export type BodyOf<N extends CallName> = operations[N] extends { requestBody: infer Body }
  ? Exact<Content<Body>>
  : undefined;

type QueryFields<N extends CallName> = operations[N]["parameters"] extends { query?: infer Query } ? NonNullable<Query> : never;

/** Fields that the path has over HTTP; the id of a session is given beside the query. */
type PathFields<N extends CallName> = operations[N]["parameters"] extends { path: infer Path } ? Omit<Path, "id"> : unknown;

/** What a call takes as its query. */
export type QueryOf<N extends CallName> = [QueryFields<N>] extends [never] ? PathFields<N> : QueryFields<N> & PathFields<N>;

type Responses<N extends CallName> = operations[N]["responses"];

/** What a call gives back. */
export type AnswerOf<N extends CallName> = Exact<Content<Responses<N>[keyof Responses<N> & (200 | 201 | 202 | 204)]>>;

/** A class of the interface, as it comes. */
export type View<N extends keyof Schemas> = Exact<Schemas[N]>;

/** Every class that has its name in `$`: events, messages and their parts. */
type Tagged = { [N in keyof Schemas]: Schemas[N] extends { $: N } ? N : never }[keyof Schemas];

/** An event of a session. */
export type SessionEvent = { [N in Tagged]: View<N> }[Tagged];

/** What an event changes in a conversation. */
export type Changes = View<"ChangesView">;

/** One change: an event, or what the host has folded of one. */
export type Change = Changes["changes"][number];

/** What stood in the way of a call. */
export type Problem = Schemas["Problem"];

/** A part of a message. */
export type Part = View<"Text"> | View<"Thinking"> | View<"Image"> | View<"File"> | View<"Data">;
