import { Match } from "aws-cdk-lib/assertions";
import { PolicyStatement, Role, ServicePrincipal } from "aws-cdk-lib/aws-iam";
import { describe, expect, it } from "vitest";
import { topology } from "../../infra/topology.ts";
import { context, listed, policiesOf, resolved, statementsOf, synthesize } from "./bootstrap.ts";
import { render } from "./render.ts";
import { all, inlineStatements } from "./resources.ts";

describe("the bootstrap stack", () => {
  const template = synthesize();

  it("has a documented reason for every wildcard; a new one would be found", () => {
    const careless = () =>
      synthesize((stack) => {
        const role = new Role(stack, "Careless", { assumedBy: new ServicePrincipal("lambda.amazonaws.com") });
        role.addToPolicy(new PolicyStatement({ actions: ["s3:*"], resources: ["*"] }));
      });
    expect(careless).toThrow(/Careless.*IAM5\[Action::s3:\*\].*IAM5\[Resource::\*\]/s);
  });

  it("trusts GitHub tokens only for AWS", () => {
    template.hasResourceProperties("AWS::IAM::OIDCProvider", {
      Url: "https://token.actions.githubusercontent.com",
      ClientIdList: ["sts.amazonaws.com"],
    });
  });

  it.each([
    ["dev", "repo:acme/concierge:environment:dev"],
    ["production", "repo:acme/concierge:environment:production"],
  ])("lets %s be deployed by %s and nobody else", (stage, subject) => {
    template.hasResourceProperties("AWS::IAM::Role", {
      RoleName: `concierge-deploy-${stage}`,
      AssumeRolePolicyDocument: {
        Statement: [
          {
            Effect: "Allow",
            Action: "sts:AssumeRoleWithWebIdentity",
            Principal: { Federated: Match.anyValue() },
            Condition: {
              StringEquals: {
                "token.actions.githubusercontent.com:aud": "sts.amazonaws.com",
                "token.actions.githubusercontent.com:sub": subject,
              },
            },
          },
        ],
      },
    });
  });

  it.each(["dev", "production"])(
    "does not let the %s deploy role create a role without the boundary",
    (stage) => {
      const making = policiesOf(template, stage).filter(
        ({ Effect, Action }) =>
          Effect === "Allow" && listed(Action).some((action) => /iam:(CreateRole|Put|Attach)/.test(action)),
      );
      expect(making).not.toEqual([]);
      for (const { Condition } of making)
        expect(Condition).toEqual({
          StringEquals: { "iam:PermissionsBoundary": { Ref: expect.stringMatching(/^Boundary/) } },
        });
    },
  );

  it.each(["dev", "production"])("keeps the %s deploy role from loosening its own limits", (stage) => {
    const denied = policiesOf(template, stage).filter(({ Effect }) => Effect === "Deny");
    const actions = denied.flatMap(({ Action }) => listed(Action));
    expect(actions).toEqual(
      expect.arrayContaining(["iam:CreatePolicyVersion", "iam:DeleteRolePermissionsBoundary", "iam:*"]),
    );
  });

  it.each(["dev", "production"])(
    "does not let the %s deploy role read items, messages or secrets",
    (stage) => {
      const actions = policiesOf(template, stage)
        .filter(({ Effect }) => Effect === "Allow")
        .flatMap(({ Action }) => listed(Action));
      const reading =
        /^(dynamodb:(.*Item|Query|Scan)|sqs:(Send|Receive|Delete)Message|secretsmanager:|lambda:Invoke|logs:(Get|Filter))/;
      expect(actions.filter((action) => reading.test(action))).toEqual([]);
      expect(actions.filter((action) => action.endsWith(":*"))).toEqual([]);
    },
  );

  it("gives dev nothing of production", () => {
    const resources = JSON.stringify(policiesOf(template, "dev").filter(({ Effect }) => Effect === "Allow"));
    expect(resources).toContain("concierge-dev-*");
    expect(resources).not.toContain("production");
    const bounded = JSON.stringify(statementsOf(template, "concierge-dev-boundary"));
    expect(bounded.match(/concierge-[a-z*]+/g)).toEqual(bounded.match(/concierge-dev/g));
  });

  it("has no policy longer than IAM accepts", () => {
    const policies = Object.values(template.findResources("AWS::IAM::ManagedPolicy"));
    const lengths = policies.map(
      ({ Properties }) => JSON.stringify(resolved(Properties.PolicyDocument)).length,
    );
    expect(Math.max(...lengths)).toBeLessThan(6144);
  });

  it.each(["dev", "production"])("bounds every role of %s to the topology's grants", (stage) => {
    const allowed = statementsOf(template, `concierge-${stage}-boundary`);
    expect(allowed.every(({ Effect }) => Effect === "Allow")).toBe(true);
    const actions = new Set(allowed.flatMap(({ Action }) => listed(Action)));
    const granted = Object.values(topology.functions).flatMap(({ grants }) =>
      grants.flatMap((grant) => [...grant.actions]),
    );
    expect([...new Set(granted)].filter((action) => !actions.has(action))).toEqual([]);
    expect([...actions].filter((action) => /^(iam|sts|s3|ssm|secretsmanager):|\*/.test(action))).toEqual([]);
  });

  it.each(["dev", "production"])("allows what every role of the program needs, for %s", async (stage) => {
    const allowed = statementsOf(template, `concierge-${stage}-boundary`).map((statement) => ({
      actions: listed(statement.Action),
      on: [resolved(statement.Resource)].flat().map(matcher),
    }));
    const isAllowed = (action: string, resource: string) =>
      allowed.some(({ actions, on }) => actions.includes(action) && on.some((arn) => arn.test(resource)));
    const program = await render(stage);
    const wanted = all(program, "role").flatMap((role) =>
      inlineStatements(role).flatMap(({ Action, Resource = [] }) =>
        listed(Action).flatMap((action) => listed(Resource).map((resource) => ({ action, resource }))),
      ),
    );
    expect(wanted.length).toBeGreaterThan(20);
    expect(wanted.filter(({ action, resource }) => !isAllowed(action, resource))).toEqual([]);
  });

  it("alerts at $50 and $100 a month", () => {
    const told = (NotificationType: string, Threshold: number) => ({
      Notification: {
        NotificationType,
        Threshold,
        ThresholdType: "ABSOLUTE_VALUE",
        ComparisonOperator: "GREATER_THAN",
      },
      Subscribers: [{ SubscriptionType: "EMAIL", Address: "ops@example.com" }],
    });
    template.hasResourceProperties("AWS::Budgets::Budget", {
      Budget: { BudgetType: "COST", TimeUnit: "MONTHLY", BudgetLimit: { Amount: 100, Unit: "USD" } },
      NotificationsWithSubscribers: [told("ACTUAL", 50), told("ACTUAL", 100), told("FORECASTED", 100)],
    });
  });

  it("can be for one stage alone, if each has its own account", () => {
    const alone = synthesize(() => {}, { ...context, stages: "dev" });
    alone.resourceCountIs("AWS::IAM::Role", 1);
  });

  it.each([
    [{ alertEmail: "ops@example.com" }, "-c repository=… must be owner/name"],
    [{ ...context, repository: "not a repository" }, "-c repository=… must be owner/name"],
    [{ ...context, alertEmail: "nobody" }, "-c alertEmail=… must be the address"],
    [{ ...context, stages: "staging" }, "-c stages=… must be dev, production"],
  ])("reports in one line what is missing or wrong: %j", (given, line) => {
    expect(() => synthesize(() => {}, given)).toThrow(line);
  });
});

/** An IAM pattern, where `*` matches anything. */
function matcher(pattern: unknown): RegExp {
  const literal = String(pattern).replaceAll(/[.+?^${}()|[\]\\]/g, "\\$&");
  return new RegExp(`^${literal.replaceAll("*", ".*")}$`);
}
