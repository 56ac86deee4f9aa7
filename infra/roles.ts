/**
 * What every role of the program carries, and whom it trusts. The boundary is made by the bootstrap stack:
 * a role without it can not be made by who deploys, nor do anything.
 */
export const accountId = aws.getCallerIdentityOutput({}).accountId;

const permissionsBoundary = $interpolate`arn:aws:iam::${accountId}:policy/concierge-boundary`;

$transform(aws.iam.Role, (role) => {
  // `sst dev` relays through more than the application may use, on a stage of the developer's own.
  if (!$dev) role.permissionsBoundary = permissionsBoundary;
});

/** SST's own lets the whole account assume a function's role. */
export const lambdaTrust = trust("lambda.amazonaws.com");

/** A schedule of another account can not use it. */
export const schedulerTrust = accountId.apply((account) =>
  trust("scheduler.amazonaws.com", { StringEquals: { "aws:SourceAccount": account } }),
);

function trust(service: string, condition?: object): string {
  const statement = { Effect: "Allow", Action: "sts:AssumeRole", Principal: { Service: service } };
  return JSON.stringify({
    Version: "2012-10-17",
    Statement: [{ ...statement, ...(condition && { Condition: condition }) }],
  });
}
