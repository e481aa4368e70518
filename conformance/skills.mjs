// Skills of several servers behind one gateway: of the npm SDK in each era, of FastMCP, and a server that has none. Clients of the npm
// SDK of both eras, over HTTP and stdio, and that of FastMCP find every skill, get it by its URI, and verify every file against the
// digests of its server. Prints PASS or FAIL for each check, and the totals last.

import { execFile, spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { connect as dial } from 'node:net';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { MODERN, assert, check, finish, freePort, load, modules, options } from './npm_story.mjs';

const CHECK_SECONDS = 60;

const { Client, StreamableHTTPClientTransport } = await load('client/dist/index.mjs');
const { StdioClientTransport } = await load('client/dist/stdio.mjs');
const { SKILLS_EXTENSION_ID, SkillVerificationError, SkillsClient } = await load('client/dist/ext/skills/index.mjs');

const here = dirname(fileURLToPath(import.meta.url));
const python = join(options.peers, 'venv/bin/python');
const peer = ['-W', 'ignore', join(here, 'skills_peer.py')];

// The same skills in the folder of each server, with other words in them. One file is no text.
const NAMES = ['modern', 'legacy', 'fast'];
const folder = (name) => join(options.directory, name);
for (const name of NAMES) {
  const write = (path, content) => {
    mkdirSync(dirname(join(folder(name), path)), { recursive: true });
    writeFileSync(join(folder(name), path), content);
  };
  write('daily/SKILL.md', `---\nname: daily\ndescription: The report of ${name}.\n---\n\n# Daily\n`);
  write(
    'git-workflow/SKILL.md',
    `---\nname: git-workflow\ndescription: How ${name} commits.\nlicense: MIT\nmetadata:\n  version: "1.0"\n---\n\nSee references/rules.md (skill://git-workflow/references/rules.md).\n`,
  );
  write('git-workflow/references/rules.md', `Rules of ${name}: Grüße, "skill://git-workflow/SKILL.md"\r\n`);
  write('git-workflow/assets/logo.png', Buffer.from([0x89, 0x50, 0x4e, 0x47, 0xff, 0x00, name.length]));
}
const URIS = NAMES.flatMap((name) => ['daily', 'git-workflow'].map((skill) => `${name}+skill://${skill}/SKILL.md`));

const until = async (what, holds) => {
  const late = performance.now() + 1000 * CHECK_SECONDS;
  while (!(await holds())) {
    assert(performance.now() < late, `waited in vain until ${what}`);
    await sleep(50);
  }
};
const accepts = (port) =>
  new Promise((resolve) => {
    const socket = dial(port, '127.0.0.1', () => resolve(true) || socket.destroy()).on('error', () => resolve(false));
  });

const fastPort = await freePort();
const fast = spawn(python, [...peer, 'serve', folder('fast'), String(fastPort)], { stdio: 'ignore' });
const node = (file, ...args) =>
  `command = ${JSON.stringify(process.execPath)}\nargs = ${JSON.stringify([file, ...args])}\n`;
const skilled = (era) =>
  node(join(here, 'skills_server.mjs'), '--peers', options.peers, '--folder', folder(era), '--era', era);
const memory = JSON.stringify(join(options.directory, 'memory.jsonl'));
const config = join(options.directory, 'tidings.toml');
writeFileSync(
  config,
  `[gateway]\nstart_wait = "60s"\n
[servers.modern]\n${skilled('modern')}
[servers.legacy]\n${skilled('legacy')}
[servers.fast]\nurl = "http://127.0.0.1:${fastPort}/mcp"\n
[servers.memory]\n${node(join(modules, 'server-memory/dist/index.js'))}env = { MEMORY_FILE_PATH = ${memory} }\n`,
);

const port = await freePort();
const base = `http://127.0.0.1:${port}`;
const serve = ['serve', '--config', config, '--data', join(options.directory, 'data'), '--listen', `127.0.0.1:${port}`];
let gateway;

async function connect(era, road) {
  const mode = era === 'modern' ? { pin: MODERN } : 'legacy';
  // A client of the old era is told once what there is, which may be before the servers are there: it has to say what it wants.
  const capabilities = { extensions: { [SKILLS_EXTENSION_ID]: {} } };
  const client = new Client({ name: 'host', version: '1.0.0' }, { versionNegotiation: { mode }, capabilities });
  const stdio = ['stdio', '--config', config, '--data', join(options.directory, `${era}-stdio`)];
  const transport =
    road === 'http'
      ? new StreamableHTTPClientTransport(new URL(`${base}/mcp`))
      : new StdioClientTransport({ command: options.tidings, args: stdio, stderr: 'ignore' });
  await client.connect(transport);
  return client;
}

async function areFound(client) {
  const { skills } = await new SkillsClient(client).list();
  assert(String(skills.map((skill) => skill.uri)) === String(URIS), skills.map((skill) => skill.uri));
  for (const skill of skills) {
    const name = skill.uri.split('+')[0];
    assert(skill.frontmatter.description.includes(name), JSON.stringify(skill));
  }
}

/** Reads every file through the SDK, which refuses whatever is not what the entry says. */
async function areVerified(client) {
  const reader = new SkillsClient(client);
  for (const uri of URIS) {
    const { skill } = await reader.get(uri);
    assert(skill.uri === uri && skill.resources.length === (uri.includes('daily') ? 1 : 3), JSON.stringify(skill));
    for (const file of skill.resources) assert((await reader.read(skill, file.uri)).verified, `${file.uri} was not verified`);
  }
}

/** A relative path inside a skill leads to the same server. */
async function arePathsFollowed(client) {
  const reader = new SkillsClient(client);
  for (const name of NAMES) {
    const { skill } = await reader.get(`${name}+skill://git-workflow/SKILL.md`);
    const { text } = await reader.read(skill, 'references/rules.md');
    assert(text === `Rules of ${name}: Grüße, "skill://git-workflow/SKILL.md"\r\n`, text);
  }
}

async function areDirectoriesRead(client) {
  const reader = new SkillsClient(client);
  for (const name of ['modern', 'legacy']) {
    const { resources } = await reader.readDirectory(`${name}+skill://git-workflow`);
    const children = resources.map((child) => child.uri).sort();
    const expected = ['SKILL.md', 'assets', 'references'].map((child) => `${name}+skill://git-workflow/${child}`);
    assert(String(children) === String(expected), children);
  }
}

async function isRefused(client) {
  for (const uri of ['modern+skill://nothing/SKILL.md', 'memory+skill://daily/SKILL.md', 'skill://daily/SKILL.md']) {
    const answer = await new SkillsClient(client).get(uri).then(() => 'found', (error) => error);
    assert(answer.code === -32602, `${uri}: ${answer}`);
  }
}

/** A file that changed after its entry was given is noticed by the host: nothing on the way hides it. */
async function isNoticed(client) {
  const reader = new SkillsClient(client);
  const { skill } = await reader.get('fast+skill://daily/SKILL.md');
  const file = join(folder('fast'), 'daily/SKILL.md');
  const before = '---\nname: daily\ndescription: The report of fast.\n---\n\n# Daily\n';
  writeFileSync(file, `${before}More.\n`);
  try {
    const answer = await reader.read(skill, undefined, { cacheMode: 'refresh' }).then(() => 'read', (error) => error);
    assert(answer instanceof SkillVerificationError, `the old entry: ${answer}`);
    const { skill: fresh } = await reader.get(skill.uri, { cacheMode: 'refresh' });
    assert((await reader.read(fresh, undefined, { cacheMode: 'refresh' })).body.includes('More.'), 'the new entry');
  } finally {
    writeFileSync(file, before);
  }
}

try {
  await until('FastMCP listens', () => accepts(fastPort));
  gateway = spawn(options.tidings, serve, { stdio: 'ignore' });
  await until('the gateway is ready', () => fetch(`${base}/readyz`).then((answer) => answer.ok, () => false));
  for (const road of ['http', 'stdio']) {
    for (const era of ['legacy', 'modern']) {
      const client = await connect(era, road);
      const what = `npm ${era} client over ${road}`;
      await check(`skills, ${what}: found`, () => areFound(client), CHECK_SECONDS);
      await check(`skills, ${what}: got, read and verified`, () => areVerified(client), CHECK_SECONDS);
      await check(`skills, ${what}: paths followed`, () => arePathsFollowed(client), CHECK_SECONDS);
      // Let in before the servers, it was told of skills and not of folders.
      if (road === 'http' || era === 'modern') {
        await check(`skills, ${what}: directories read`, () => areDirectoriesRead(client), CHECK_SECONDS);
      }
      await check(`skills, ${what}: unknown ones refused`, () => isRefused(client), CHECK_SECONDS);
      await check(`skills, ${what}: changes noticed`, () => isNoticed(client), CHECK_SECONDS);
      await client.close();
    }
  }
  await check(
    'skills, FastMCP client: found, got, read and verified',
    async () => {
      const { stdout } = await promisify(execFile)(python, [...peer, 'read', `${base}/mcp`]);
      assert(String(JSON.parse(stdout)) === String(URIS), stdout);
    },
    CHECK_SECONDS,
  );
} finally {
  gateway?.kill();
  fast.kill();
}
finish();
