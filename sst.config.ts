/// <reference path="./.sst/platform/config.d.ts" />

export default $config({
  async app({ stage }) {
    const { stageOf } = await import("./infra/stages.ts");
    const { isProtected } = stageOf(stage);
    return {
      name: "concierge",
      home: "aws",
      removal: isProtected ? "retain" : "remove",
      protect: isProtected,
    };
  },
  async run() {
    await import("./infra/roles.ts");
    await import("./infra/assets.ts");
    await import("./infra/storage.ts");
    await import("./infra/queues.ts");
    await import("./infra/secrets.ts");
    await import("./infra/router.ts");
    const { functions } = await import("./infra/functions.ts");
    await import("./infra/schedule.ts");
    await import("./infra/observability.ts");
    return { url: functions.Api?.url };
  },
});
