import { CfnBudget } from "aws-cdk-lib/aws-budgets";
import type { Construct } from "constructs";

/** Dollars a month: at the first one looks, at the second the room is to be kept and not built anew. */
const alertsUsd = [50, 100];

export function createBudget(scope: Construct, email: string): void {
  const limitUsd = Math.max(...alertsUsd);
  new CfnBudget(scope, "Budget", {
    budget: {
      budgetName: "concierge",
      budgetType: "COST",
      timeUnit: "MONTHLY",
      budgetLimit: { amount: limitUsd, unit: "USD" },
    },
    notificationsWithSubscribers: [
      ...alertsUsd.map((threshold) => told(email, "ACTUAL", threshold)),
      // What the month is on its way to: days before it is spent.
      told(email, "FORECASTED", limitUsd),
    ],
  });
}

function told(address: string, notificationType: "ACTUAL" | "FORECASTED", threshold: number) {
  return {
    notification: {
      notificationType,
      comparisonOperator: "GREATER_THAN",
      threshold,
      thresholdType: "ABSOLUTE_VALUE",
    },
    subscribers: [{ subscriptionType: "EMAIL", address }],
  };
}
