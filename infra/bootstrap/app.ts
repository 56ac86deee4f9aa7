/** `npm run bootstrap -- deploy -c repository=owner/name -c alertEmail=who@example.com`: once per account. */
import { App, Validations } from "aws-cdk-lib";
import { AwsSolutionsChecks } from "cdk-nag";
import { readSettings, SettingsError } from "./settings.ts";
import { BootstrapStack } from "./stack.ts";

const app = new App();
try {
  new BootstrapStack(app, "ConciergeBootstrap", { settings: readSettings(app) });
  Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
} catch (error) {
  if (!(error instanceof SettingsError)) throw error;
  console.error(error.message);
  process.exit(1);
}
