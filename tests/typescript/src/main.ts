/** Runs every scenario file in one process, between one setup and one teardown. */
import { after, before, describe } from 'node:test';
import { setup, teardown } from './harness';

describe('Temporal TypeScript SDK', () => {
  before(setup, { timeout: 120_000 });
  after(teardown, { timeout: 30_000 });

  require('./scenarios/basics');
  require('./scenarios/messages');
  require('./scenarios/updates');
  require('./scenarios/identity');
  require('./scenarios/activities');
  require('./scenarios/local-activities');
  require('./scenarios/async-completion');
  require('./scenarios/cancellation');
  require('./scenarios/children');
  require('./scenarios/lifecycle');
  require('./scenarios/failures');
  require('./scenarios/workers');
  require('./scenarios/liveness');
  require('./scenarios/scripts');
  require('./scenarios/verification');
  require('./scenarios/security');
  require('./scenarios/time-skipping');
  // Last: it replays the histories of the scenarios above.
  require('./scenarios/replay');
});
