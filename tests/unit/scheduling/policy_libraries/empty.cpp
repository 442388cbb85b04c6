/// A shared object that is not a policy.

int unrelated() {
  return 0;
}
