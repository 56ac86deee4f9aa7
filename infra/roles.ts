/**
 * The boundary and the trust policy of every role. The bootstrap stack creates one boundary per stage. The deploy role
 * cannot create roles without it.
 */
export const accountId = aws.getCallerIdentityOutput({}).accountId;

const permissionsBoundary = $interpolate`arn:aws:iam::${accountId}:policy/concierge-${$app.stage}-boundary`;

$transform(aws.iam.Role, (role) => {
  // `sst dev` relays through services that the boundary excludes, on a developer's own stage.
  if (!$dev) role.permissionsBoundary = permissionsBoundary;
});

/** SST's default lets the whole account assume a function's role. */
export const lambdaTrust = trust("lambda.amazonaws.com");

/** Schedules of other accounts cannot use the role. */
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
