; What runtime.c needs of 64-bit Arm: the control word of floating point (FPCR), and the pause of a thread that waits.
; 0x7C80007: results without FIZ, AH and NEP, flush to zero of half precision, the rounding mode, flush to zero, default
; NaN, alternative half precision.
@nki_floating_changes = internal constant i64 130547719
@nki_floating_default = internal constant i64 0

define internal i64 @nki_floating_control() {
  %word = call i64 @llvm.aarch64.get.fpcr()
  ret i64 %word
}

define internal void @nki_set_floating_control(i64 %word) {
  call void @llvm.aarch64.set.fpcr(i64 %word)
  ret void
}

define internal void @nki_pause() {
  call void @llvm.aarch64.hint(i32 1)  ; yield
  ret void
}

declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)
declare void @llvm.aarch64.hint(i32)
