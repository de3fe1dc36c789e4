/** Workflows that talk to other Workflows. */
import {
  CancellationScope,
  ChildWorkflowCancellationType,
  ChildWorkflowFailure,
  type ChildWorkflowOptions,
  executeChild,
  getExternalWorkflowHandle,
  isCancellation,
  ParentClosePolicy,
  sleep,
  startChild,
  workflowInfo,
  type WorkflowIdReusePolicy,
} from '@temporalio/workflow';
import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import { counter, failWithDetails, greet, sleeper, waitForever, whoAmI } from './basic';

export async function parentOfGreet(childId: string): Promise<{ greeting: string; parent: unknown; memo: unknown }> {
  const greeting = await executeChild(greet, { workflowId: childId, args: ['child'] });
  const info = await executeChild(whoAmI, { workflowId: `${childId}-info`, memo: { from: 'parent' } });
  return { greeting, parent: info.parent, memo: info.memo };
}

export async function parentOfMany(n: number): Promise<string[]> {
  const { workflowId } = workflowInfo();
  return await Promise.all(
    Array.from({ length: n }, (_, i) => executeChild(greet, { workflowId: `${workflowId}-${i}`, args: [`#${i}`] }))
  );
}

/** The child's failure ends the parent too. */
export async function parentOfFailure(childId: string): Promise<void> {
  await executeChild(failWithDetails, { workflowId: childId });
}

/** Any child that does not end well: reports the failure the parent sees. */
export async function observeChild(type: string, args: unknown[], options: ChildWorkflowOptions): Promise<unknown> {
  try {
    return { result: await executeChild(type, { ...options, args }) };
  } catch (err) {
    if (!(err instanceof ChildWorkflowFailure)) throw err;
    return {
      name: err.name,
      workflowType: err.workflowType,
      workflowId: err.execution.workflowId,
      retryState: err.retryState,
      cause: err.cause?.name,
      causeMessage: err.cause?.message,
    };
  }
}

export async function startTwice(childId: string, workflowIdReusePolicy?: WorkflowIdReusePolicy): Promise<unknown> {
  await startChild(waitForever, {
    workflowId: childId,
    parentClosePolicy: ParentClosePolicy.TERMINATE,
    workflowIdReusePolicy,
  });
  try {
    await startChild(waitForever, { workflowId: childId });
    return 'started twice';
  } catch (err) {
    if (!(err instanceof WorkflowExecutionAlreadyStartedError)) throw err;
    return { name: err.name, workflowId: err.workflowId };
  }
}

export async function signalChild(childId: string): Promise<unknown> {
  const child = await startChild(counter, { workflowId: childId, args: [100] });
  await child.signal('add', 1);
  await child.signal('add', 2);
  await child.signal('finish');
  return await child.result();
}

/** Leaves a child behind that is still running. */
export async function leaveChild(childId: string, parentClosePolicy: ParentClosePolicy, ms: number): Promise<string> {
  const child = await startChild(sleeper, { workflowId: childId, args: [ms], parentClosePolicy });
  return child.firstExecutionRunId;
}

/** Waits for its child; a cancellation of the parent is passed on to it. */
export async function waitForChild(
  childId: string,
  cancellationType: ChildWorkflowCancellationType,
  child: 'waitForever' | 'cleanUpWhenCancelled'
): Promise<unknown> {
  await executeChild(child, { workflowId: childId, cancellationType });
  return 'child ended well';
}

/** Cancels a child through a scope and goes on. */
export async function cancelChildScope(childId: string): Promise<string> {
  const scope = new CancellationScope();
  const running = scope.run(() =>
    executeChild(waitForever, {
      workflowId: childId,
      cancellationType: ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
    })
  );
  running.catch(() => undefined);
  await sleep(100);
  scope.cancel();
  try {
    await running;
    return 'not cancelled';
  } catch (err) {
    if (!isCancellation(err)) throw err;
    await sleep(10);
    return 'child cancelled';
  }
}

// --- external Workflows ---

export async function signalExternal(targetId: string, n: number): Promise<string> {
  const target = getExternalWorkflowHandle(targetId);
  await target.signal('add', n);
  await target.signal('finish');
  return 'signalled';
}

export async function cancelExternal(targetId: string): Promise<string> {
  await getExternalWorkflowHandle(targetId).cancel();
  return 'requested';
}

export async function reachMissing(targetId: string): Promise<{ signal: string; cancel: string }> {
  const target = getExternalWorkflowHandle(targetId);
  const describe = (err: unknown) => `${(err as Error).name}: ${(err as Error).message}`;
  const signal = await target.signal('add', 1).then(() => 'no error', describe);
  const cancel = await target.cancel().then(() => 'no error', describe);
  return { signal, cancel };
}
