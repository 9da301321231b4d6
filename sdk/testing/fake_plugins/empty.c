// A library that a fake plugin needs and that is not where the linker looks.
int fakevendor;
