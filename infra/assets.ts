/**
 * Puts this stage's code under its own prefix of SST's asset bucket, which all stages of an account share. A deploy role
 * may write only there, so it cannot replace another stage's code.
 */
$transform(aws.s3.BucketObjectv2, (object) => {
  object.key = $interpolate`${$app.name}/${$app.stage}/${object.key}`;
});

export {};
