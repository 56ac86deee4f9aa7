/** The least that answers the same request: a route, and one item of the table. */
import { DynamoDBClient, GetItemCommand } from "@aws-sdk/client-dynamodb";
import { Hono } from "hono";
import { streamHandle } from "hono/aws-lambda";

const client = new DynamoDBClient();
const app = new Hono();

app.get("/v1/tasks/:id", async (c) => {
  const Key = { pk: { S: `TASK#${c.req.param("id")}` }, sk: { S: "TASK" } };
  const { Item } = await client.send(new GetItemCommand({ TableName: process.env.TABLE_NAME, Key }));
  return Item ? c.json(Item) : c.notFound();
});

export const handler = streamHandle(app);
