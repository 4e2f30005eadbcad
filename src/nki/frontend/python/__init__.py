"""Python that runs while a kernel is built and that releases before 0.7 refuse."""
