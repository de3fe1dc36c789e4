// The workflow: one activity, then its result.
const { proxyActivities } = require("@temporalio/workflow");

const { echo } = proxyActivities({ startToCloseTimeout: "60 seconds" });

exports.oneActivity = async function oneActivity(input) {
  return await echo(input);
};
