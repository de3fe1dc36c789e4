// One durable step: what Restate's `ctx.run` is to it, an activity is to a workflow.
// Run by `cargo xtask bench`: node service.mjs PORT
import * as restate from "@restatedev/restate-sdk";

// The SDK asks for Node 22; this is all that Node 20 lacks of it.
Promise.withResolvers ??= function () {
  let resolve, reject;
  const promise = new Promise((onResolve, onReject) => ([resolve, reject] = [onResolve, onReject]));
  return { promise, resolve, reject };
};

const bench = restate.service({
  name: "bench",
  handlers: {
    one: async (ctx, input) => await ctx.run("step", async () => input),
  },
});

restate.serve({ services: [bench], port: Number(process.argv[2]) });
