import { CfnBudget } from "aws-cdk-lib/aws-budgets";
import type { Construct } from "constructs";

/** Monthly limits in dollars: the first needs a look, at the second sandboxes should be kept instead of rebuilt. */
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
      ...alertsUsd.map((threshold) => notification(email, "ACTUAL", threshold)),
      // The forecast warns days before the money is spent.
      notification(email, "FORECASTED", limitUsd),
    ],
  });
}

function notification(address: string, notificationType: "ACTUAL" | "FORECASTED", threshold: number) {
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
