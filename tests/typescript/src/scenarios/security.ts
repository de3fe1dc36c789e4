/** TLS and API keys: clients and Workers against a server that asks who calls. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe } from 'node:test';
import { Client, Connection } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import { eventually, freePort, NAMESPACE, rejection, scenario, serverBinary, unique, withWorker } from '../harness';
import * as wf from '../workflows';

/** Runs `body` against a server with TLS and authentication, and its admin key. */
async function guarded(body: (address: string, ca: Buffer, admin: string, certificates: string) => Promise<void>): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'segno-ts-'));
  const tls = join(directory, 'tls');
  execFileSync(serverBinary(), ['tls', 'init', '--dir', tls, '--client', 'ann']);
  const [port, httpPort] = await Promise.all([freePort(), freePort()]);
  const keyFile = join(directory, 'admin.key');
  const args = ['serve', '--in-memory', '--port', String(port), '--http-port', String(httpPort)];
  args.push('--tls-cert', join(tls, 'server.pem'), '--tls-key', join(tls, 'server.key'), '--admin-key-file', keyFile);
  args.push('--tls-client-ca', join(tls, 'ca.pem'), '--tls-client-certs', 'optional');
  const server = spawn(serverBinary(), args, { stdio: ['ignore', 'pipe', 'ignore'] });
  let output = '';
  server.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  try {
    await eventually('the server is ready', () => output.includes('ready'));
    await body(`127.0.0.1:${port}`, readFileSync(join(tls, 'ca.pem')), readFileSync(keyFile, 'utf8').trim(), tls);
  } finally {
    server.kill('SIGKILL');
    rmSync(directory, { recursive: true, force: true });
  }
}

describe('security', () => {
  scenario('a client and a Worker over TLS with an API key', async () => {
    await guarded(async (address, ca, apiKey) => {
      const tls = { serverRootCACertificate: ca };
      const connection = await Connection.connect({ address, tls, apiKey });
      const nativeConnection = await NativeConnection.connect({ address, tls, apiKey });
      try {
        const client = new Client({ connection, namespace: NAMESPACE });
        const taskQueue = unique('guarded');
        await withWorker({ taskQueue, connection: nativeConnection }, async () => {
          const result = client.workflow.execute(wf.greet, { taskQueue, workflowId: unique('guarded'), args: ['Segno'] });
          assert.equal(await result, 'Hello, Segno!');
        });
        // A key that is not known is refused; so is none.
        for (const wrong of ['segno_nobody', undefined]) {
          const stranger = await Connection.connect({ address, tls, apiKey: wrong });
          const refused = await rejection(new Client({ connection: stranger, namespace: NAMESPACE }).workflow.count());
          assert.match(String(refused.cause ?? refused), /UNAUTHENTICATED/);
          await stranger.close();
        }
      } finally {
        await nativeConnection.close();
        await connection.close();
      }
    });
  });

  scenario('a client with a certificate', async () => {
    await guarded(async (address, ca, apiKey, certificates) => {
      const file = (name: string) => join(certificates, name);
      const make = ['key', 'create', 'ann', '--certificate', 'ann', '--grant', `${NAMESPACE}:write`];
      execFileSync(serverBinary(), [...make, '--address', address, '--tls-ca-path', file('ca.pem')], {
        env: { ...process.env, SEGNO_API_KEY: apiKey },
      });
      const clientCertPair = { crt: readFileSync(file('ann.pem')), key: readFileSync(file('ann.key')) };
      const connection = await Connection.connect({ address, tls: { serverRootCACertificate: ca, clientCertPair } });
      const counted = await new Client({ connection, namespace: NAMESPACE }).workflow.count();
      assert.equal(counted.count, 0);
      await connection.close();
    });
  });
});
