# Types for the part of llvmlite that nki/backend/cpu may use; the package itself ships none.
