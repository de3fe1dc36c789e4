// The workflows of all recipes that share a worker.
export * from './cron-job.workflows';
export * from './fan-out.workflows';
export * from './human-approval.workflows';
export * from './large-payloads.workflows';
export * from './polling.workflows';
export * from './rate-limit.workflows';
export * from './saga.workflows';
export * from './webhook.workflows';
