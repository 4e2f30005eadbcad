; What runtime.c needs of x86-64: the control word of SSE (MXCSR), and the pause of a thread that waits.
@nki_floating_changes = internal constant i64 57408  ; 0xE040: flush to zero, the rounding mode, subnormals are zero
@nki_floating_default = internal constant i64 8064   ; 0x1F80

define internal i64 @nki_floating_control() {
  %place = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %place)
  %short = load i32, ptr %place
  %word = zext i32 %short to i64
  ret i64 %word
}

define internal void @nki_set_floating_control(i64 %word) {
  %place = alloca i32
  %short = trunc i64 %word to i32
  store i32 %short, ptr %place
  call void @llvm.x86.sse.ldmxcsr(ptr %place)
  ret void
}

define internal void @nki_pause() {
  call void @llvm.x86.sse2.pause()
  ret void
}

declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.x86.sse2.pause()
