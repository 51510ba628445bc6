// Requests of the server to the client that the specification names and protocol.ts does not have yet. Each goes when
// the generated file brings it.

export const soon = {
  getDiagnostics: "agent/getDiagnostics",
} as const;
