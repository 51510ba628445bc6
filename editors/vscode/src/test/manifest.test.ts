// The manifest and the code list the same commands and settings.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

const ROOT = new URL("../../", import.meta.url);
const manifest = JSON.parse(readFileSync(new URL("package.json", ROOT), "utf8")) as {
  capabilities: { untrustedWorkspaces: { restrictedConfigurations: string[] } };
  contributes: {
    commands: { command: string }[];
    menus: Record<string, { command: string }[]>;
    keybindings: { command: string; key: string; win?: string }[];
    configuration: {
      properties: Record<string, { scope?: string; description?: string; markdownDescription?: string }>;
    };
  };
};
const { commands, menus, keybindings, configuration } = manifest.contributes;
const named = new Set(commands.map(({ command }) => command));

function readSource(name: string): string {
  return readFileSync(new URL(`src/${name}`, ROOT), "utf8");
}

test("the manifest and the table contain the same commands", () => {
  const table = /export const commandTable = \{([\s\S]*?)\n\} satisfies/.exec(readSource("commands.ts"))?.[1] ?? "";
  const tableCommands = [...table.matchAll(/^ {2}(\w+)[:(]/gm)].map(([, name]) => `agentls.${name}`);
  assert.deepEqual([...tableCommands].sort(), [...named].sort());
});

test("menus and keybindings use existing commands", () => {
  for (const { command } of [...Object.values(menus).flat(), ...keybindings]) assert.ok(named.has(command), command);
});

test("each setting is described and used", () => {
  const all = readdirSync(new URL("src/", ROOT))
    .filter((name) => name.endsWith(".ts"))
    .map(readSource)
    .join("\n");
  for (const [name, { description, markdownDescription }] of Object.entries(configuration.properties)) {
    assert.ok((description ?? markdownDescription ?? "").length > 20, name);
    // vscode-languageclient reads the trace setting.
    const shortName = name.replace("agentls.", "");
    assert.ok(name === "agentls.trace.server" || all.includes(`"${shortName}"`), `${name} has an effect`);
  }
});

test("a workspace's settings can change only harmless settings", () => {
  const harmless = ["agentls.follow", "agentls.notifyAfterSeconds", "agentls.saveAfterEdit", "agentls.trace.server"];
  const userSettings = Object.keys(configuration.properties).filter((name) => !harmless.includes(name));
  assert.deepEqual([...manifest.capabilities.untrustedWorkspaces.restrictedConfigurations].sort(), userSettings.sort());
  for (const name of userSettings) {
    // VS Code ignores values of a workspace or its folders in these scopes.
    assert.match(configuration.properties[name]?.scope ?? "window", /^(application|machine)$/, name);
  }
});

test("no Windows keybinding uses Ctrl+Alt, which is AltGr", () => {
  for (const { command, key, win } of keybindings) {
    const keys = new Set((win ?? key).split("+"));
    assert.ok(!(keys.has("ctrl") && keys.has("alt")), `${command}: ${win ?? key}`);
  }
});
