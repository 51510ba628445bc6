// Opens web addresses in the user's browser.

import { env, type Uri } from "vscode";

/**
 * Opens an address exactly as it is; VS Code may ask for confirmation. A `Uri` would decode parts of the query, such as
 * `%2B`. VS Code accepts a string, too, although its types do not say so.
 */
export async function openAddress(address: string): Promise<void> {
  await env.openExternal(address as unknown as Uri);
}
