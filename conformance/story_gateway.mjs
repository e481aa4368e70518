// The gateway of a story: started, stopped and started again in one folder, with everything that it and its commands say kept for whoever
// searches it.

import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { assert, freePort, options } from './npm_story.mjs';

/** How long a check has, and with it every wait in it. */
export const CHECK_SECONDS = 60;

/** Asks again and again until something holds. */
export async function until(what, holds) {
  const end = performance.now() + 1000 * CHECK_SECONDS;
  for (;;) {
    const value = await holds();
    if (value) return value;
    assert(performance.now() < end, what);
    await sleep(20);
  }
}

/** A gateway that is not started yet. `config`: its file, `env`: what its environment has beside that of the story, `place`: how others reach
 * it, without the port. */
export async function storyGateway({ config, env = {}, place = 'http://127.0.0.1' } = {}) {
  const port = await freePort();
  const base = `${place}:${port}`;
  const data = join(options.directory, 'data');
  mkdirSync(data, { recursive: true });
  const house = { ...process.env, TIDINGS_CONFIG: '', HOME: options.directory, XDG_CONFIG_HOME: options.directory };
  const said = { text: '' };
  let gateway;

  const hear = (child, ...ears) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (text) => [said, ...ears].forEach((ear) => (ear.text += text)));
    }
  };

  async function serve() {
    const file = config ? ['--config', config] : [];
    gateway = spawn(options.tidings, ['-vv', 'serve', ...file, '--data', data, '--listen', `127.0.0.1:${port}`], {
      stdio: ['ignore', 'pipe', 'pipe'],
      cwd: options.directory,
      env: { ...house, ...env },
    });
    hear(gateway);
    await until('the gateway is not ready', () => fetch(`${base}/readyz`).then((answer) => answer.ok, () => false));
  }

  async function stop() {
    const ended = new Promise((resolve) => gateway.once('exit', resolve));
    gateway.kill('SIGTERM');
    await ended;
  }

  /** A command that runs; what it says grows in `text`, and `ended` gives its code. */
  function command(...args) {
    const child = spawn(options.tidings, [...args, '--data', data], { stdio: ['ignore', 'pipe', 'pipe'], cwd: options.directory, env: house });
    const own = { text: '' };
    hear(child, own);
    own.ended = new Promise((resolve) => child.once('close', resolve));
    return own;
  }

  /** A command to its end. */
  async function run(...args) {
    const own = command(...args);
    own.code = await own.ended;
    return own;
  }

  /** A request to the API, as an admin. */
  function api(path, init = {}) {
    const token = readFileSync(join(data, 'admin.token'), 'utf8').trim();
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    return fetch(`${base}/api/v1${path}`, { ...init, headers: { ...headers, ...init.headers } });
  }

  return { base, data, serve, stop, command, run, api, output: () => said.text };
}
