/** What CloudFront runs on each request, before the router's own; plain text, no IaC import here. */

/** Signing replaces `authorization`: the api looks for the caller's own in the second first. */
export const keepAuthorization = `
  delete event.request.headers["x-forwarded-authorization"];
  if (event.request.headers.authorization) {
    event.request.headers["x-forwarded-authorization"] = event.request.headers.authorization;
  }`;
