; Made by tools/native_runtime.py with clang version 22.1.8. SHA-256 of the C files:
; b2a9adabaae6d24f60d02b96dcbef15126638caafe413e6a76a15bfd1bd82c4b

%struct.row = type { ptr, i64 }
%struct.peer = type { i64, i64, i64 }
%struct.record = type { i64, i64 }
%struct.entry = type { ptr, i64, ptr, ptr }
%struct.line = type { i64, i64, [2 x %struct.record], [2 x i64] }
%struct.parallel = type { %struct.entry, ptr }

@nki_monotonic_clock = external constant i32, align 4
@nki_floating_default = external constant i64, align 8
@nki_floating_changes = external constant i64, align 8

define void @nki_for(ptr %0, ptr %1, i64 %2, i64 %3) {
  %5 = load i64, ptr %1, align 8
  %6 = getelementptr inbounds i8, ptr %1, i64 8
  %7 = load i64, ptr %6, align 8
  %8 = getelementptr inbounds ptr, ptr %0, i64 %5
  %9 = load ptr, ptr %8, align 8
  %10 = getelementptr inbounds i8, ptr %9, i64 %7
  %11 = getelementptr inbounds i8, ptr %1, i64 32
  %12 = load i64, ptr %11, align 8
  %13 = getelementptr inbounds i8, ptr %1, i64 40
  %14 = load i64, ptr %13, align 8
  %15 = getelementptr inbounds ptr, ptr %0, i64 %12
  %16 = load ptr, ptr %15, align 8
  %17 = getelementptr inbounds i8, ptr %16, i64 %14
  %18 = load i32, ptr %17, align 4
  %19 = sext i32 %18 to i64
  %20 = getelementptr inbounds i8, ptr %0, i64 16
  %21 = load ptr, ptr %20, align 8
  %22 = getelementptr inbounds i8, ptr %21, i64 32
  %23 = load i64, ptr %22, align 8
  %24 = getelementptr inbounds i8, ptr %1, i64 16
  %25 = load i64, ptr %24, align 8
  %26 = getelementptr inbounds i8, ptr %1, i64 24
  %27 = load i64, ptr %26, align 8
  %28 = getelementptr inbounds ptr, ptr %0, i64 %25
  %29 = load ptr, ptr %28, align 8
  %30 = getelementptr inbounds i8, ptr %29, i64 %27
  %31 = load i32, ptr %30, align 4
  %32 = icmp slt i32 %31, %18
  br i1 %32, label %33, label %68

33:
  %34 = sext i32 %31 to i64
  %35 = getelementptr inbounds i8, ptr %1, i64 56
  %36 = getelementptr inbounds i8, ptr %0, i64 24
  %37 = getelementptr inbounds i8, ptr %1, i64 64
  %38 = getelementptr inbounds i8, ptr %0, i64 32
  %39 = getelementptr inbounds i8, ptr %1, i64 72
  %40 = getelementptr inbounds i8, ptr %1, i64 48
  br label %41

41:
  %42 = phi i64 [ %34, %33 ], [ %66, %64 ]
  %43 = phi i64 [ %23, %33 ], [ %61, %64 ]
  %44 = trunc i64 %42 to i32
  store i32 %44, ptr %10, align 4
  %45 = load ptr, ptr %36, align 8
  %46 = load i64, ptr %35, align 8
  %47 = getelementptr inbounds %struct.row, ptr %45, i64 %46
  %48 = load i64, ptr %37, align 8
  %49 = load ptr, ptr %38, align 8
  tail call fastcc void @walk(ptr %47, i64 %48, ptr %49, ptr %0)
  %50 = add i64 %43, -1
  %51 = icmp slt i64 %50, -32
  br i1 %51, label %54, label %52

52:
  %53 = load ptr, ptr %20, align 8
  br label %59

54:
  %55 = load i64, ptr %39, align 8
  tail call fastcc void @poll_now(ptr %0, i64 %55)
  %56 = load ptr, ptr %20, align 8
  %57 = getelementptr inbounds i8, ptr %56, i64 32
  %58 = load i64, ptr %57, align 8
  br label %59

59:
  %60 = phi ptr [ %56, %54 ], [ %53, %52 ]
  %61 = phi i64 [ %58, %54 ], [ %50, %52 ]
  %62 = load i64, ptr %60, align 8
  %63 = icmp eq i64 %62, 0
  br i1 %63, label %64, label %68

64:
  %65 = load i64, ptr %40, align 8
  %66 = add i64 %65, %42
  %67 = icmp slt i64 %66, %19
  br i1 %67, label %41, label %68

68:
  %69 = phi ptr [ %21, %4 ], [ %60, %59 ], [ %60, %64 ]
  %70 = phi i64 [ %23, %4 ], [ %61, %59 ], [ %61, %64 ]
  %71 = getelementptr inbounds i8, ptr %69, i64 32
  store i64 %70, ptr %71, align 8
  %72 = load ptr, ptr %20, align 8
  %73 = load i64, ptr %72, align 8
  %74 = icmp eq i64 %73, -4611686018427387904
  br i1 %74, label %75, label %79

75:
  %76 = getelementptr inbounds i8, ptr %1, i64 72
  %77 = load i64, ptr %76, align 8
  %78 = sub i64 0, %77
  store i64 %78, ptr %72, align 8
  br label %79

79:
  ret void
}

define void @nki_while(ptr %0, ptr %1, i64 %2, i64 %3) {
  %5 = load i64, ptr %1, align 8
  %6 = getelementptr inbounds i8, ptr %1, i64 8
  %7 = load i64, ptr %6, align 8
  %8 = getelementptr inbounds ptr, ptr %0, i64 %5
  %9 = load ptr, ptr %8, align 8
  %10 = getelementptr inbounds i8, ptr %9, i64 %7
  %11 = getelementptr inbounds i8, ptr %0, i64 16
  %12 = load ptr, ptr %11, align 8
  %13 = getelementptr inbounds i8, ptr %12, i64 32
  %14 = load i64, ptr %13, align 8
  %15 = getelementptr inbounds i8, ptr %1, i64 16
  %16 = getelementptr inbounds i8, ptr %0, i64 24
  %17 = getelementptr inbounds i8, ptr %1, i64 24
  %18 = getelementptr inbounds i8, ptr %0, i64 32
  %19 = getelementptr inbounds i8, ptr %1, i64 32
  %20 = load i32, ptr %10, align 4
  %21 = icmp eq i32 %20, 0
  br i1 %21, label %47, label %25

22:
  %23 = load i32, ptr %10, align 4
  %24 = icmp eq i32 %23, 0
  br i1 %24, label %47, label %25

25:
  %26 = phi i64 [ %43, %22 ], [ %14, %4 ]
  %27 = load ptr, ptr %16, align 8
  %28 = load i64, ptr %15, align 8
  %29 = getelementptr inbounds %struct.row, ptr %27, i64 %28
  %30 = load i64, ptr %17, align 8
  %31 = load ptr, ptr %18, align 8
  tail call fastcc void @walk(ptr %29, i64 %30, ptr %31, ptr %0)
  %32 = add i64 %26, -1
  %33 = icmp slt i64 %32, -32
  br i1 %33, label %36, label %34

34:
  %35 = load ptr, ptr %11, align 8
  br label %41

36:
  %37 = load i64, ptr %19, align 8
  tail call fastcc void @poll_now(ptr %0, i64 %37)
  %38 = load ptr, ptr %11, align 8
  %39 = getelementptr inbounds i8, ptr %38, i64 32
  %40 = load i64, ptr %39, align 8
  br label %41

41:
  %42 = phi ptr [ %38, %36 ], [ %35, %34 ]
  %43 = phi i64 [ %40, %36 ], [ %32, %34 ]
  %44 = load i64, ptr %42, align 8
  %45 = icmp eq i64 %44, 0
  br i1 %45, label %22, label %46

46:
  br label %47

47:
  %48 = phi ptr [ %12, %4 ], [ %42, %46 ], [ %42, %22 ]
  %49 = phi i64 [ %14, %4 ], [ %43, %46 ], [ %43, %22 ]
  %50 = getelementptr inbounds i8, ptr %48, i64 32
  store i64 %49, ptr %50, align 8
  %51 = load ptr, ptr %11, align 8
  %52 = load i64, ptr %51, align 8
  %53 = icmp eq i64 %52, -4611686018427387904
  br i1 %53, label %54, label %57

54:
  %55 = load i64, ptr %19, align 8
  %56 = sub i64 0, %55
  store i64 %56, ptr %51, align 8
  br label %57

57:
  ret void
}

define void @nki_timed(ptr %0, ptr %1, i64 %2, i64 %3) {
  %5 = alloca [2 x i64], align 16
  %6 = alloca [2 x i64], align 16
  %7 = load i32, ptr @nki_monotonic_clock, align 4
  %8 = call i32 @clock_gettime(i32 %7, ptr %6)
  %9 = load i64, ptr %6, align 16
  %10 = getelementptr inbounds i8, ptr %6, i64 8
  %11 = load i64, ptr %10, align 8
  %12 = load ptr, ptr %1, align 8
  %13 = getelementptr inbounds i8, ptr %1, i64 8
  %14 = load i64, ptr %13, align 8
  %15 = getelementptr inbounds i8, ptr %1, i64 %14
  call void %12(ptr %0, ptr %15, i64 %2, i64 %3)
  %16 = getelementptr inbounds i8, ptr %1, i64 16
  %17 = load ptr, ptr %16, align 8
  %18 = call i32 @clock_gettime(i32 %7, ptr %5)
  %19 = load i64, ptr %5, align 16
  %20 = getelementptr inbounds i8, ptr %5, i64 8
  %21 = load i64, ptr %20, align 8
  %22 = sub i64 %19, %9
  %23 = mul i64 %22, 1000000000
  %24 = sub i64 %21, %11
  %25 = add i64 %24, %23
  %26 = atomicrmw add ptr %17, i64 %25 monotonic, align 8
  %27 = load ptr, ptr %16, align 8
  %28 = getelementptr inbounds i8, ptr %27, i64 8
  %29 = icmp eq i64 %2, 0
  %30 = zext i1 %29 to i64
  %31 = atomicrmw add ptr %28, i64 %30 monotonic, align 8
  ret void
}

define void @nki_fill(ptr %0, ptr %1, i64 %2, i64 %3) {
  %5 = load i64, ptr %1, align 8
  %6 = getelementptr inbounds i8, ptr %1, i64 8
  %7 = load i64, ptr %6, align 8
  %8 = getelementptr inbounds ptr, ptr %0, i64 %5
  %9 = load ptr, ptr %8, align 8
  %10 = getelementptr inbounds i8, ptr %9, i64 %7
  %11 = getelementptr inbounds i8, ptr %1, i64 16
  %12 = load i64, ptr %11, align 8
  %13 = ashr i64 %12, 3
  %14 = icmp sgt i64 %13, 0
  br i1 %14, label %15, label %19

15:
  %16 = getelementptr inbounds i8, ptr %1, i64 24
  br label %27

17:
  %18 = load i64, ptr %11, align 8
  br label %19

19:
  %20 = phi i64 [ %18, %17 ], [ %12, %4 ]
  %21 = and i64 %20, 7
  %22 = icmp eq i64 %21, 0
  br i1 %22, label %33, label %23

23:
  %24 = getelementptr inbounds i8, ptr %1, i64 24
  %25 = and i64 %12, -8
  %26 = getelementptr i8, ptr %10, i64 %25
  br label %34

27:
  %28 = phi i64 [ 0, %15 ], [ %31, %27 ]
  %29 = load i64, ptr %16, align 8
  %30 = getelementptr inbounds i64, ptr %10, i64 %28
  store i64 %29, ptr %30, align 1
  %31 = add i64 %28, 1
  %32 = icmp eq i64 %31, %13
  br i1 %32, label %17, label %27

33:
  ret void

34:
  %35 = phi i64 [ 0, %23 ], [ %41, %34 ]
  %36 = load i64, ptr %24, align 8
  %37 = shl i64 %35, 3
  %38 = ashr i64 %36, %37
  %39 = trunc i64 %38 to i8
  %40 = getelementptr i8, ptr %26, i64 %35
  store i8 %39, ptr %40, align 1
  %41 = add i64 %35, 1
  %42 = load i64, ptr %11, align 8
  %43 = and i64 %42, 7
  %44 = icmp ult i64 %41, %43
  br i1 %44, label %34, label %33
}

define void @nki_copy(ptr %0, ptr %1, i64 %2, i64 %3) {
  %5 = load i64, ptr %1, align 8
  %6 = getelementptr inbounds i8, ptr %1, i64 8
  %7 = load i64, ptr %6, align 8
  %8 = getelementptr inbounds ptr, ptr %0, i64 %5
  %9 = load ptr, ptr %8, align 8
  %10 = getelementptr inbounds i8, ptr %9, i64 %7
  %11 = getelementptr inbounds i8, ptr %1, i64 16
  %12 = load i64, ptr %11, align 8
  %13 = getelementptr inbounds i8, ptr %1, i64 24
  %14 = load i64, ptr %13, align 8
  %15 = getelementptr inbounds ptr, ptr %0, i64 %12
  %16 = load ptr, ptr %15, align 8
  %17 = getelementptr inbounds i8, ptr %16, i64 %14
  %18 = getelementptr inbounds i8, ptr %1, i64 32
  %19 = load i64, ptr %18, align 8
  %20 = icmp sgt i64 %19, 7
  br i1 %20, label %22, label %21

21:
  ret void

22:
  %23 = phi i64 [ %27, %22 ], [ 0, %4 ]
  %24 = getelementptr inbounds i64, ptr %17, i64 %23
  %25 = load i64, ptr %24, align 8
  %26 = getelementptr inbounds i64, ptr %10, i64 %23
  store i64 %25, ptr %26, align 8
  %27 = add i64 %23, 1
  %28 = load i64, ptr %18, align 8
  %29 = ashr i64 %28, 3
  %30 = icmp slt i64 %27, %29
  br i1 %30, label %22, label %21
}

define void @nki_barrier(ptr %0, ptr %1, i64 %2, i64 %3) {
  %5 = load i64, ptr %1, align 8
  %6 = getelementptr inbounds ptr, ptr %0, i64 %5
  %7 = load ptr, ptr %6, align 8
  %8 = getelementptr inbounds i8, ptr %0, i64 16
  %9 = load ptr, ptr %8, align 8
  %10 = load i64, ptr %9, align 8
  %11 = icmp eq i64 %10, 0
  br i1 %11, label %12, label %114

12:
  %13 = getelementptr inbounds i8, ptr %1, i64 24
  %14 = load i64, ptr %13, align 8
  %15 = icmp sgt i64 %14, 0
  br i1 %15, label %16, label %114

16:
  %17 = getelementptr inbounds i8, ptr %1, i64 32
  %18 = getelementptr inbounds i8, ptr %1, i64 8
  br label %24

19:
  %20 = icmp sgt i64 %36, 0
  br i1 %20, label %21, label %114

21:
  %22 = getelementptr inbounds i8, ptr %1, i64 32
  %23 = getelementptr inbounds i8, ptr %1, i64 8
  br label %42

24:
  %25 = phi i64 [ 0, %16 ], [ %35, %24 ]
  %26 = getelementptr inbounds %struct.peer, ptr %17, i64 %25
  %27 = load i64, ptr %26, align 8
  %28 = getelementptr inbounds i8, ptr %7, i64 %27
  %29 = load atomic i64, ptr %28 monotonic, align 8
  %30 = add i64 %29, 1
  %31 = getelementptr inbounds i8, ptr %28, i64 16
  %32 = and i64 %30, 1
  %33 = getelementptr inbounds %struct.record, ptr %31, i64 %32
  %34 = load <2 x i64>, ptr %18, align 8
  store <2 x i64> %34, ptr %33, align 8
  store atomic i64 %30, ptr %28 release, align 8
  %35 = add i64 %25, 1
  %36 = load i64, ptr %13, align 8
  %37 = icmp slt i64 %35, %36
  br i1 %37, label %24, label %19

38:
  %39 = add i64 %43, 1
  %40 = load i64, ptr %13, align 8
  %41 = icmp slt i64 %39, %40
  br i1 %41, label %42, label %114

42:
  %43 = phi i64 [ 0, %21 ], [ %39, %38 ]
  %44 = getelementptr inbounds %struct.peer, ptr %22, i64 %43
  %45 = load i64, ptr %44, align 8
  %46 = getelementptr inbounds i8, ptr %7, i64 %45
  %47 = getelementptr inbounds i8, ptr %44, i64 8
  %48 = load i64, ptr %47, align 8
  %49 = getelementptr inbounds i8, ptr %7, i64 %48
  %50 = load atomic i64, ptr %46 monotonic, align 8
  %51 = load atomic i64, ptr %49 acquire, align 8
  %52 = icmp slt i64 %51, %50
  br i1 %52, label %53, label %70

53:
  %54 = getelementptr inbounds i8, ptr %49, i64 8
  br label %55

55:
  %56 = phi i64 [ 0, %53 ], [ %67, %66 ]
  %57 = load atomic i64, ptr %54 acquire, align 8
  %58 = icmp eq i64 %57, 0
  br i1 %58, label %59, label %74

59:
  %60 = icmp sgt i64 %56, 2000
  br i1 %60, label %61, label %66

61:
  %62 = tail call i32 @sched_yield()
  tail call fastcc void @poll_now(ptr %0, i64 4611686018427387904)
  %63 = load ptr, ptr %8, align 8
  %64 = load i64, ptr %63, align 8
  %65 = icmp eq i64 %64, 0
  br i1 %65, label %66, label %95

66:
  %67 = add i64 %56, 1
  %68 = load atomic i64, ptr %49 acquire, align 8
  %69 = icmp slt i64 %68, %50
  br i1 %69, label %55, label %70

70:
  %71 = getelementptr inbounds i8, ptr %49, i64 16
  %72 = and i64 %50, 1
  %73 = getelementptr inbounds %struct.record, ptr %71, i64 %72
  br label %80

74:
  %75 = load atomic i64, ptr %49 acquire, align 8
  %76 = icmp slt i64 %75, %50
  %77 = getelementptr inbounds i8, ptr %49, i64 16
  %78 = and i64 %50, 1
  %79 = getelementptr inbounds %struct.record, ptr %77, i64 %78
  br i1 %76, label %88, label %80

80:
  %81 = phi ptr [ %73, %70 ], [ %79, %74 ]
  %82 = load i64, ptr %81, align 8
  %83 = load i64, ptr %23, align 8
  %84 = icmp eq i64 %82, %83
  br i1 %84, label %38, label %85

85:
  %86 = load i64, ptr %9, align 8
  %87 = icmp eq i64 %86, 0
  br i1 %87, label %102, label %114

88:
  %89 = load i64, ptr %9, align 8
  %90 = icmp eq i64 %89, 0
  br i1 %90, label %91, label %114

91:
  %92 = getelementptr inbounds i8, ptr %1, i64 16
  %93 = load i64, ptr %92, align 8
  store i64 %93, ptr %9, align 8
  %94 = getelementptr inbounds i8, ptr %9, i64 8
  store i64 -1, ptr %94, align 8
  br label %108

95:
  %96 = load i64, ptr %9, align 8
  %97 = icmp eq i64 %96, 0
  br i1 %97, label %98, label %114

98:
  %99 = getelementptr inbounds i8, ptr %1, i64 16
  %100 = load i64, ptr %99, align 8
  store i64 %100, ptr %9, align 8
  %101 = getelementptr inbounds i8, ptr %9, i64 8
  store i64 -1, ptr %101, align 8
  br label %108

102:
  %103 = getelementptr inbounds i8, ptr %1, i64 16
  %104 = load i64, ptr %103, align 8
  store i64 %104, ptr %9, align 8
  %105 = getelementptr inbounds i8, ptr %9, i64 8
  store i64 -1, ptr %105, align 8
  %106 = getelementptr inbounds i8, ptr %81, i64 8
  %107 = load i64, ptr %106, align 8
  br label %108

108:
  %109 = phi i64 [ %107, %102 ], [ 0, %91 ], [ 0, %98 ]
  %110 = getelementptr inbounds i8, ptr %9, i64 16
  store i64 %109, ptr %110, align 8
  %111 = getelementptr inbounds i8, ptr %44, i64 16
  %112 = load i64, ptr %111, align 8
  %113 = getelementptr inbounds i8, ptr %9, i64 24
  store i64 %112, ptr %113, align 8
  br label %114

114:
  ret void
}

define ptr @nki_new_team() {
  %1 = tail call ptr @calloc(i64 1, i64 640)
  %2 = icmp eq ptr %1, null
  br i1 %2, label %12, label %3

3:
  %4 = ptrtoint ptr %1 to i64
  %5 = sub i64 0, %4
  %6 = and i64 %5, 63
  %7 = getelementptr inbounds i8, ptr %1, i64 %6
  %8 = getelementptr inbounds i8, ptr %7, i64 320
  %9 = tail call i32 @pthread_mutex_init(ptr %8, ptr null)
  %10 = getelementptr inbounds i8, ptr %7, i64 448
  %11 = tail call i32 @pthread_cond_init(ptr %10, ptr null)
  br label %12

12:
  %13 = phi ptr [ %7, %3 ], [ null, %0 ]
  ret ptr %13
}

declare ptr @calloc(i64, i64)

declare i32 @pthread_mutex_init(ptr, ptr)

declare i32 @pthread_cond_init(ptr, ptr)

define void @nki_stop_team(ptr %0) {
  %2 = getelementptr inbounds i8, ptr %0, i64 200
  store atomic i64 1, ptr %2 seq_cst, align 8
  tail call fastcc void @wake(ptr %0)
  ret void
}

define internal fastcc void @wake(ptr %0) {
  %2 = getelementptr inbounds i8, ptr %0, i64 192
  %3 = load atomic i64, ptr %2 seq_cst, align 64
  %4 = icmp sgt i64 %3, 0
  br i1 %4, label %5, label %11

5:
  %6 = getelementptr inbounds i8, ptr %0, i64 320
  %7 = tail call i32 @pthread_mutex_lock(ptr %6)
  %8 = getelementptr inbounds i8, ptr %0, i64 448
  %9 = tail call i32 @pthread_cond_broadcast(ptr %8)
  %10 = tail call i32 @pthread_mutex_unlock(ptr %6)
  br label %11

11:
  ret void
}

define i64 @nki_start_helper(ptr %0, i64 %1) {
  %3 = alloca i64, align 8
  store i64 0, ptr %3, align 8
  %4 = tail call ptr @calloc(i64 1, i64 16)
  %5 = icmp eq ptr %4, null
  br i1 %5, label %12, label %6

6:
  store ptr %0, ptr %4, align 8
  %7 = getelementptr inbounds i8, ptr %4, i64 8
  store i64 %1, ptr %7, align 8
  %8 = call i32 @pthread_create(ptr %3, ptr null, ptr @run_helper, ptr %4)
  %9 = icmp eq i32 %8, 0
  %10 = load i64, ptr %3, align 8
  %11 = select i1 %9, i64 %10, i64 0
  br label %12

12:
  %13 = phi i64 [ %11, %6 ], [ 0, %2 ]
  ret i64 %13
}

declare i32 @pthread_create(ptr, ptr, ptr, ptr)

define internal ptr @run_helper(ptr %0) {
  %2 = load ptr, ptr %0, align 8
  %3 = getelementptr inbounds i8, ptr %0, i64 8
  %4 = load i64, ptr %3, align 8
  tail call fastcc void @help(ptr %2, i64 %4)
  ret ptr null
}

define void @nki_region(ptr %0, ptr %1, i64 %2, i64 %3) {
  %5 = getelementptr inbounds i8, ptr %0, i64 56
  %6 = load ptr, ptr %5, align 8
  %7 = icmp eq ptr %6, null
  %8 = getelementptr inbounds i8, ptr %0, i64 16
  br i1 %7, label %9, label %15

9:
  %10 = getelementptr inbounds i8, ptr %1, i64 16
  %11 = load i64, ptr %10, align 8
  %12 = icmp sgt i64 %11, 0
  br i1 %12, label %13, label %152

13:
  %14 = getelementptr inbounds i8, ptr %1, i64 24
  br label %141

15:
  %16 = load ptr, ptr %8, align 8
  %17 = getelementptr inbounds i8, ptr %0, i64 64
  %18 = load i64, ptr %17, align 8
  %19 = getelementptr inbounds i8, ptr %1, i64 16
  %20 = load i64, ptr %19, align 8
  %21 = add i64 %20, -1
  %22 = add i64 %21, %18
  %23 = udiv i64 %22, %18
  %24 = getelementptr inbounds i8, ptr %1, i64 32
  %25 = load i64, ptr %24, align 8
  %26 = add i64 %25, -1
  %27 = add i64 %26, %23
  %28 = sub i64 0, %25
  %29 = and i64 %27, %28
  %30 = add i64 %20, 31
  %31 = lshr i64 %30, 5
  %32 = add i64 %26, %31
  %33 = and i64 %32, %28
  %34 = getelementptr inbounds i8, ptr %1, i64 24
  %35 = load i64, ptr %34, align 8
  %36 = tail call i64 @llvm.smin.i64(i64 %35, i64 %29)
  %37 = tail call i64 @llvm.smax.i64(i64 %36, i64 %33)
  %38 = add i64 %37, %21
  %39 = udiv i64 %38, %37
  %40 = getelementptr inbounds i8, ptr %6, i64 256
  %41 = getelementptr inbounds i8, ptr %0, i64 72
  %42 = load ptr, ptr %41, align 8
  %43 = ptrtoint ptr %42 to i64
  store atomic i64 %43, ptr %40 monotonic, align 8
  %44 = getelementptr inbounds i8, ptr %6, i64 264
  %45 = getelementptr inbounds i8, ptr %0, i64 80
  %46 = load i64, ptr %45, align 8
  store atomic i64 %46, ptr %44 monotonic, align 8
  %47 = getelementptr inbounds i8, ptr %6, i64 272
  %48 = getelementptr inbounds i8, ptr %0, i64 24
  %49 = load ptr, ptr %48, align 8
  %50 = load i64, ptr %1, align 8
  %51 = getelementptr inbounds %struct.row, ptr %49, i64 %50
  %52 = ptrtoint ptr %51 to i64
  store atomic i64 %52, ptr %47 monotonic, align 8
  %53 = getelementptr inbounds i8, ptr %6, i64 280
  %54 = getelementptr inbounds i8, ptr %1, i64 8
  %55 = load i64, ptr %54, align 8
  store atomic i64 %55, ptr %53 monotonic, align 8
  %56 = getelementptr inbounds i8, ptr %6, i64 288
  %57 = getelementptr inbounds i8, ptr %0, i64 32
  %58 = load ptr, ptr %57, align 8
  %59 = ptrtoint ptr %58 to i64
  store atomic i64 %59, ptr %56 monotonic, align 8
  %60 = getelementptr inbounds i8, ptr %6, i64 296
  store atomic i64 %37, ptr %60 monotonic, align 8
  %61 = getelementptr inbounds i8, ptr %6, i64 304
  store atomic i64 %39, ptr %61 monotonic, align 8
  %62 = getelementptr inbounds i8, ptr %6, i64 312
  %63 = load i64, ptr %17, align 8
  store atomic i64 %63, ptr %62 monotonic, align 8
  %64 = getelementptr inbounds i8, ptr %6, i64 64
  store atomic i64 0, ptr %64 monotonic, align 8
  %65 = load atomic i64, ptr %6 seq_cst, align 64
  %66 = and i64 %65, -4294967296
  %67 = add i64 %66, 4294967296
  %68 = sub i64 32, %39
  %69 = lshr i64 4294967295, %68
  %70 = or i64 %67, %69
  store atomic i64 %70, ptr %6 seq_cst, align 64
  tail call fastcc void @wake(ptr %6)
  %71 = load atomic i64, ptr %6 seq_cst, align 64
  %72 = and i64 %71, 4294967295
  %73 = icmp eq i64 %72, 0
  br i1 %73, label %74, label %77

74:
  %75 = load atomic i64, ptr %64 seq_cst, align 64
  %76 = icmp slt i64 %75, %39
  br i1 %76, label %106, label %97

77:
  %78 = phi i64 [ %95, %93 ], [ %72, %15 ]
  %79 = phi i64 [ %94, %93 ], [ %71, %15 ]
  %80 = tail call i64 @llvm.cttz.i64(i64 %78, i1 true)
  %81 = shl i64 1, %80
  %82 = xor i64 %81, -1
  %83 = and i64 %79, %82
  %84 = cmpxchg ptr %6, i64 %79, i64 %83 seq_cst seq_cst, align 64
  %85 = extractvalue { i64, i1 } %84, 1
  br i1 %85, label %86, label %93

86:
  %87 = load i64, ptr %16, align 8
  %88 = icmp eq i64 %87, 0
  br i1 %88, label %89, label %91

89:
  %90 = mul i64 %80, %37
  tail call fastcc void @run_chunk(ptr %0, ptr %1, i64 %90, i64 %37)
  br label %91

91:
  %92 = atomicrmw add ptr %64, i64 1 seq_cst, align 64
  br label %93

93:
  %94 = load atomic i64, ptr %6 seq_cst, align 64
  %95 = and i64 %94, 4294967295
  %96 = icmp eq i64 %95, 0
  br i1 %96, label %74, label %77

97:
  %98 = load i64, ptr %17, align 8
  %99 = add i64 %98, -1
  %100 = icmp sgt i64 %99, 0
  br i1 %100, label %101, label %152

101:
  %102 = ptrtoint ptr %0 to i64
  %103 = getelementptr inbounds i8, ptr %16, i64 8
  %104 = getelementptr inbounds i8, ptr %16, i64 16
  %105 = getelementptr inbounds i8, ptr %16, i64 24
  br label %112

106:
  %107 = phi i64 [ %109, %106 ], [ 1, %74 ]
  tail call void @nki_pause()
  %108 = tail call fastcc i1 @wait_after(i64 %107)
  %109 = add i64 %107, 1
  %110 = load atomic i64, ptr %64 seq_cst, align 64
  %111 = icmp slt i64 %110, %39
  br i1 %111, label %106, label %97

112:
  %113 = phi i64 [ %98, %101 ], [ %137, %136 ]
  %114 = phi i64 [ 0, %101 ], [ %138, %136 ]
  %115 = load ptr, ptr %41, align 8
  %116 = load i64, ptr %45, align 8
  %117 = mul i64 %116, %114
  %118 = getelementptr inbounds i8, ptr %115, i64 %117
  %119 = load ptr, ptr %8, align 8
  %120 = ptrtoint ptr %119 to i64
  %121 = sub i64 %120, %102
  %122 = getelementptr inbounds i8, ptr %118, i64 %121
  %123 = load i64, ptr %122, align 8
  %124 = icmp eq i64 %123, 0
  br i1 %124, label %136, label %125

125:
  %126 = load i64, ptr %16, align 8
  %127 = icmp eq i64 %126, 0
  br i1 %127, label %128, label %136

128:
  store i64 %123, ptr %16, align 8
  %129 = getelementptr inbounds i8, ptr %122, i64 8
  %130 = load i64, ptr %129, align 8
  store i64 %130, ptr %103, align 8
  %131 = getelementptr inbounds i8, ptr %122, i64 16
  %132 = load i64, ptr %131, align 8
  store i64 %132, ptr %104, align 8
  %133 = getelementptr inbounds i8, ptr %122, i64 24
  %134 = load i64, ptr %133, align 8
  store i64 %134, ptr %105, align 8
  %135 = load i64, ptr %17, align 8
  br label %136

136:
  %137 = phi i64 [ %135, %128 ], [ %113, %125 ], [ %113, %112 ]
  %138 = add i64 %114, 1
  %139 = add i64 %137, -1
  %140 = icmp slt i64 %138, %139
  br i1 %140, label %112, label %152

141:
  %142 = phi i64 [ 0, %13 ], [ %149, %146 ]
  %143 = load ptr, ptr %8, align 8
  %144 = load i64, ptr %143, align 8
  %145 = icmp eq i64 %144, 0
  br i1 %145, label %146, label %152

146:
  %147 = load i64, ptr %14, align 8
  tail call fastcc void @run_chunk(ptr %0, ptr %1, i64 %142, i64 %147)
  %148 = load i64, ptr %14, align 8
  %149 = add i64 %148, %142
  %150 = load i64, ptr %10, align 8
  %151 = icmp slt i64 %149, %150
  br i1 %151, label %141, label %152

152:
  ret void
}

define internal fastcc void @run_chunk(ptr %0, ptr %1, i64 %2, i64 %3) {
  %5 = getelementptr inbounds i8, ptr %0, i64 24
  %6 = load ptr, ptr %5, align 8
  %7 = load i64, ptr %1, align 8
  %8 = getelementptr inbounds %struct.row, ptr %6, i64 %7
  %9 = getelementptr inbounds i8, ptr %1, i64 8
  %10 = load i64, ptr %9, align 8
  %11 = getelementptr inbounds i8, ptr %0, i64 32
  %12 = load ptr, ptr %11, align 8
  %13 = add i64 %3, %2
  %14 = icmp sgt i64 %10, 0
  %15 = getelementptr inbounds i8, ptr %0, i64 16
  br i1 %14, label %18, label %16

16:
  %17 = load ptr, ptr %15, align 8
  br label %31

18:
  %19 = phi i64 [ %28, %18 ], [ 0, %4 ]
  %20 = getelementptr inbounds %struct.row, ptr %8, i64 %19
  %21 = load ptr, ptr %20, align 8
  %22 = getelementptr inbounds i8, ptr %20, i64 8
  %23 = load i64, ptr %22, align 8
  %24 = getelementptr inbounds i64, ptr %12, i64 %23
  tail call void %21(ptr %0, ptr %24, i64 %2, i64 %13)
  %25 = load ptr, ptr %15, align 8
  %26 = load i64, ptr %25, align 8
  %27 = icmp ne i64 %26, 0
  %28 = add i64 %19, 1
  %29 = icmp eq i64 %28, %10
  %30 = select i1 %27, i1 true, i1 %29
  br i1 %30, label %31, label %18

31:
  %32 = phi ptr [ %17, %16 ], [ %25, %18 ]
  %33 = getelementptr inbounds i8, ptr %32, i64 32
  %34 = load i64, ptr %33, align 8
  %35 = add i64 %34, -1
  store i64 %35, ptr %33, align 8
  %36 = icmp slt i64 %35, -32
  br i1 %36, label %37, label %42

37:
  %38 = getelementptr inbounds i8, ptr %0, i64 16
  tail call fastcc void @poll_now(ptr %0, i64 4611686018427387904)
  %39 = load ptr, ptr %38, align 8
  %40 = getelementptr inbounds i8, ptr %39, i64 32
  %41 = load i64, ptr %40, align 8
  store i64 %41, ptr %33, align 8
  br label %42

42:
  ret void
}

define void @nki_run(ptr %0, i64 %1, ptr %2, ptr %3) {
  %5 = alloca %struct.entry, align 8
  %6 = tail call ptr @PyEval_SaveThread()
  store ptr %0, ptr %5, align 8
  %7 = getelementptr inbounds i8, ptr %5, i64 8
  store i64 %1, ptr %7, align 8
  %8 = getelementptr inbounds i8, ptr %5, i64 16
  store ptr %2, ptr %8, align 8
  %9 = getelementptr inbounds i8, ptr %5, i64 24
  store ptr %3, ptr %9, align 8
  call fastcc void @walk_entry(ptr %5)
  tail call void @PyEval_RestoreThread(ptr %6)
  %10 = getelementptr inbounds i8, ptr %3, i64 48
  %11 = load ptr, ptr %10, align 8
  %12 = getelementptr inbounds i8, ptr %11, i64 24
  %13 = load atomic i64, ptr %12 seq_cst, align 8
  %14 = icmp eq i64 %13, 0
  br i1 %14, label %22, label %15

15:
  %16 = getelementptr inbounds i8, ptr %11, i64 32
  %17 = load ptr, ptr %16, align 8
  %18 = getelementptr inbounds i8, ptr %11, i64 40
  %19 = load ptr, ptr %18, align 8
  %20 = getelementptr inbounds i8, ptr %11, i64 48
  %21 = load ptr, ptr %20, align 8
  tail call void @PyErr_Restore(ptr %17, ptr %19, ptr %21)
  br label %22

22:
  ret void
}

declare ptr @PyEval_SaveThread()

define internal fastcc void @walk_entry(ptr %0) {
  %2 = tail call fastcc i64 @begin_default()
  %3 = load ptr, ptr %0, align 8
  %4 = getelementptr inbounds i8, ptr %0, i64 8
  %5 = load i64, ptr %4, align 8
  %6 = getelementptr inbounds i8, ptr %0, i64 16
  %7 = load ptr, ptr %6, align 8
  %8 = getelementptr inbounds i8, ptr %0, i64 24
  %9 = load ptr, ptr %8, align 8
  tail call fastcc void @walk(ptr %3, i64 %5, ptr %7, ptr %9)
  %10 = load i64, ptr @nki_floating_default, align 8
  %11 = xor i64 %10, %2
  %12 = load i64, ptr @nki_floating_changes, align 8
  %13 = and i64 %11, %12
  %14 = icmp eq i64 %13, 0
  br i1 %14, label %16, label %15

15:
  tail call void @nki_set_floating_control(i64 %2)
  br label %16

16:
  ret void
}

declare void @PyEval_RestoreThread(ptr)

define void @nki_run_with_team(ptr %0, i64 %1, ptr %2, ptr %3) {
  %5 = alloca %struct.entry, align 8
  %6 = tail call ptr @PyEval_SaveThread()
  tail call fastcc void @begin_team(ptr %3)
  store ptr %0, ptr %5, align 8
  %7 = getelementptr inbounds i8, ptr %5, i64 8
  store i64 %1, ptr %7, align 8
  %8 = getelementptr inbounds i8, ptr %5, i64 16
  store ptr %2, ptr %8, align 8
  %9 = getelementptr inbounds i8, ptr %5, i64 24
  store ptr %3, ptr %9, align 8
  call fastcc void @walk_entry(ptr %5)
  %10 = getelementptr inbounds i8, ptr %3, i64 56
  %11 = load ptr, ptr %10, align 8
  %12 = icmp eq ptr %11, null
  br i1 %12, label %15, label %13

13:
  %14 = getelementptr inbounds i8, ptr %11, i64 128
  store atomic i64 0, ptr %14 seq_cst, align 64
  br label %15

15:
  tail call void @PyEval_RestoreThread(ptr %6)
  %16 = getelementptr inbounds i8, ptr %3, i64 48
  %17 = load ptr, ptr %16, align 8
  %18 = getelementptr inbounds i8, ptr %17, i64 24
  %19 = load atomic i64, ptr %18 seq_cst, align 8
  %20 = icmp eq i64 %19, 0
  br i1 %20, label %28, label %21

21:
  %22 = getelementptr inbounds i8, ptr %17, i64 32
  %23 = load ptr, ptr %22, align 8
  %24 = getelementptr inbounds i8, ptr %17, i64 40
  %25 = load ptr, ptr %24, align 8
  %26 = getelementptr inbounds i8, ptr %17, i64 48
  %27 = load ptr, ptr %26, align 8
  tail call void @PyErr_Restore(ptr %23, ptr %25, ptr %27)
  br label %28

28:
  ret void
}

define internal fastcc void @begin_team(ptr %0) {
  %2 = getelementptr inbounds i8, ptr %0, i64 56
  %3 = load ptr, ptr %2, align 8
  %4 = getelementptr inbounds i8, ptr %3, i64 128
  %5 = atomicrmw xchg ptr %4, i64 1 seq_cst, align 64
  %6 = icmp eq i64 %5, 0
  br i1 %6, label %8, label %7

7:
  store ptr null, ptr %2, align 8
  br label %58

8:
  %9 = getelementptr inbounds i8, ptr %0, i64 16
  %10 = load ptr, ptr %9, align 8
  %11 = ptrtoint ptr %10 to i64
  %12 = ptrtoint ptr %0 to i64
  %13 = sub i64 %11, %12
  %14 = sdiv i64 %13, 8
  %15 = getelementptr inbounds i8, ptr %0, i64 64
  %16 = load i64, ptr %15, align 8
  %17 = add i64 %16, -1
  %18 = icmp sgt i64 %17, 0
  br i1 %18, label %19, label %58

19:
  %20 = getelementptr inbounds i8, ptr %0, i64 72
  %21 = getelementptr inbounds i8, ptr %0, i64 80
  %22 = icmp sgt i64 %13, 7
  br label %23

23:
  %24 = phi i64 [ 0, %19 ], [ %47, %33 ]
  %25 = load ptr, ptr %20, align 8
  %26 = load i64, ptr %21, align 8
  %27 = mul i64 %26, %24
  %28 = getelementptr inbounds i8, ptr %25, i64 %27
  br i1 %22, label %51, label %33

29:
  %30 = load ptr, ptr %20, align 8
  %31 = load i64, ptr %21, align 8
  %32 = mul i64 %31, %24
  br label %33

33:
  %34 = phi i64 [ %32, %29 ], [ %27, %23 ]
  %35 = phi ptr [ %30, %29 ], [ %25, %23 ]
  %36 = getelementptr inbounds i8, ptr %35, i64 %34
  %37 = load ptr, ptr %9, align 8
  %38 = ptrtoint ptr %37 to i64
  %39 = sub i64 %38, %12
  %40 = getelementptr inbounds i8, ptr %36, i64 %39
  %41 = getelementptr inbounds i8, ptr %28, i64 16
  store ptr %40, ptr %41, align 8
  %42 = load ptr, ptr %0, align 8
  %43 = ptrtoint ptr %42 to i64
  %44 = sub i64 %43, %12
  %45 = getelementptr inbounds i8, ptr %28, i64 %44
  %46 = getelementptr inbounds i8, ptr %28, i64 8
  store ptr %45, ptr %46, align 8
  tail call void @llvm.memset.p0.i64(ptr align 8 %40, i8 0, i64 64, i1 false)
  %47 = add i64 %24, 1
  %48 = load i64, ptr %15, align 8
  %49 = add i64 %48, -1
  %50 = icmp slt i64 %47, %49
  br i1 %50, label %23, label %58

51:
  %52 = phi i64 [ %56, %51 ], [ 0, %23 ]
  %53 = getelementptr inbounds i64, ptr %0, i64 %52
  %54 = load i64, ptr %53, align 8
  %55 = getelementptr inbounds i64, ptr %28, i64 %52
  store i64 %54, ptr %55, align 8
  %56 = add i64 %52, 1
  %57 = icmp eq i64 %56, %14
  br i1 %57, label %29, label %51

58:
  ret void
}

define void @nki_lead(ptr %0, i64 %1, ptr %2, ptr %3, ptr %4, i64 %5, i64 %6) {
  %8 = alloca %struct.entry, align 8
  %9 = getelementptr inbounds i8, ptr %3, i64 48
  %10 = load ptr, ptr %9, align 8
  %11 = tail call ptr @PyEval_SaveThread()
  store atomic i64 1, ptr %10 seq_cst, align 8
  store ptr %0, ptr %8, align 8
  %12 = getelementptr inbounds i8, ptr %8, i64 8
  store i64 %1, ptr %12, align 8
  %13 = getelementptr inbounds i8, ptr %8, i64 16
  store ptr %2, ptr %13, align 8
  %14 = getelementptr inbounds i8, ptr %8, i64 24
  store ptr %3, ptr %14, align 8
  call fastcc void @walk_entry(ptr %8)
  %15 = icmp sgt i64 %6, 0
  br i1 %15, label %16, label %25

16:
  %17 = mul i64 %6, %5
  %18 = getelementptr %struct.line, ptr %4, i64 %17
  br label %19

19:
  %20 = phi i64 [ 0, %16 ], [ %23, %19 ]
  %21 = getelementptr %struct.line, ptr %18, i64 %20
  %22 = getelementptr inbounds i8, ptr %21, i64 8
  store atomic i64 1, ptr %22 release, align 8
  %23 = add i64 %20, 1
  %24 = icmp eq i64 %23, %6
  br i1 %24, label %25, label %19

25:
  %26 = getelementptr inbounds i8, ptr %10, i64 16
  %27 = add i64 %6, -1
  %28 = load atomic i64, ptr %26 acquire, align 8
  %29 = icmp slt i64 %28, %27
  br i1 %29, label %42, label %30

30:
  tail call void @PyEval_RestoreThread(ptr %11)
  %31 = getelementptr inbounds i8, ptr %10, i64 24
  %32 = load atomic i64, ptr %31 seq_cst, align 8
  %33 = icmp eq i64 %32, 0
  br i1 %33, label %41, label %34

34:
  %35 = getelementptr inbounds i8, ptr %10, i64 32
  %36 = load ptr, ptr %35, align 8
  %37 = getelementptr inbounds i8, ptr %10, i64 40
  %38 = load ptr, ptr %37, align 8
  %39 = getelementptr inbounds i8, ptr %10, i64 48
  %40 = load ptr, ptr %39, align 8
  tail call void @PyErr_Restore(ptr %36, ptr %38, ptr %40)
  br label %41

41:
  ret void

42:
  %43 = phi i64 [ %47, %46 ], [ 1, %25 ]
  %44 = tail call fastcc i1 @wait_after(i64 %43)
  br i1 %44, label %45, label %46

45:
  tail call fastcc void @poll_now(ptr %3, i64 4611686018427387904)
  br label %46

46:
  %47 = add i64 %43, 1
  %48 = load atomic i64, ptr %26 acquire, align 8
  %49 = icmp slt i64 %48, %27
  br i1 %49, label %42, label %30
}

define internal fastcc i1 @wait_after(i64 %0) {
  %2 = icmp sgt i64 %0, 2000
  br i1 %2, label %3, label %9

3:
  %4 = icmp ugt i64 %0, 2200
  br i1 %4, label %5, label %7

5:
  %6 = tail call i32 @usleep(i32 50)
  br label %9

7:
  %8 = tail call i32 @sched_yield()
  br label %9

9:
  ret i1 %2
}

define internal fastcc void @poll_now(ptr %0, i64 %1) {
  %3 = alloca [2 x i64], align 16
  %4 = getelementptr inbounds i8, ptr %0, i64 16
  %5 = load ptr, ptr %4, align 8
  %6 = getelementptr inbounds i8, ptr %0, i64 48
  %7 = load ptr, ptr %6, align 8
  %8 = getelementptr inbounds i8, ptr %7, i64 8
  %9 = load atomic i64, ptr %8 monotonic, align 8
  %10 = icmp eq i64 %9, 0
  br i1 %10, label %18, label %11

11:
  %12 = load i64, ptr %5, align 8
  %13 = icmp eq i64 %12, 0
  br i1 %13, label %14, label %67

14:
  %15 = sub i64 0, %1
  store i64 %15, ptr %5, align 8
  %16 = load ptr, ptr %4, align 8
  %17 = getelementptr inbounds i8, ptr %16, i64 8
  store i64 -2, ptr %17, align 8
  br label %67

18:
  %19 = load i32, ptr @nki_monotonic_clock, align 4
  %20 = call i32 @clock_gettime(i32 %19, ptr %3)
  %21 = load i64, ptr %3, align 16
  %22 = mul i64 %21, 1000000000
  %23 = getelementptr inbounds i8, ptr %3, i64 8
  %24 = load i64, ptr %23, align 8
  %25 = add i64 %22, %24
  %26 = getelementptr inbounds i8, ptr %5, i64 48
  %27 = load i64, ptr %26, align 8
  %28 = sub i64 %25, %27
  %29 = getelementptr inbounds i8, ptr %5, i64 40
  %30 = load i64, ptr %29, align 8
  %31 = icmp eq i64 %30, 0
  br i1 %31, label %32, label %34

32:
  %33 = getelementptr inbounds i8, ptr %5, i64 56
  store i64 %25, ptr %33, align 8
  br label %34

34:
  %35 = icmp slt i64 %28, 100000
  br i1 %35, label %36, label %41

36:
  %37 = icmp slt i64 %30, 64
  %38 = shl i64 %30, 1
  %39 = or i64 %38, 1
  %40 = select i1 %37, i64 %39, i64 %30
  br label %45

41:
  %42 = icmp ugt i64 %28, 5000000
  %43 = ashr i64 %30, 2
  %44 = select i1 %42, i64 %43, i64 %30
  br label %45

45:
  %46 = phi i64 [ %40, %36 ], [ %44, %41 ]
  store i64 %46, ptr %29, align 8
  %47 = add i64 %46, -32
  %48 = getelementptr inbounds i8, ptr %5, i64 32
  store i64 %47, ptr %48, align 8
  store i64 %25, ptr %26, align 8
  %49 = getelementptr inbounds i8, ptr %5, i64 56
  %50 = load i64, ptr %49, align 8
  %51 = sub i64 %25, %50
  %52 = icmp sgt i64 %51, 50000000
  br i1 %52, label %53, label %67

53:
  store i64 %25, ptr %49, align 8
  %54 = call i32 @PyGILState_Ensure()
  %55 = call i32 @PyErr_CheckSignals()
  %56 = icmp eq i32 %55, 0
  br i1 %56, label %66, label %57

57:
  %58 = load ptr, ptr %6, align 8
  call fastcc void @keep_exception(ptr %58)
  %59 = load ptr, ptr %4, align 8
  %60 = load i64, ptr %59, align 8
  %61 = icmp eq i64 %60, 0
  br i1 %61, label %62, label %66

62:
  %63 = sub i64 0, %1
  store i64 %63, ptr %59, align 8
  %64 = load ptr, ptr %4, align 8
  %65 = getelementptr inbounds i8, ptr %64, i64 8
  store i64 -2, ptr %65, align 8
  br label %66

66:
  call void @PyGILState_Release(i32 %54)
  br label %67

67:
  ret void
}

define i64 @nki_follow(ptr %0, i64 %1, ptr %2, ptr %3, ptr %4, i64 %5, i64 %6) {
  %8 = alloca [2 x i64], align 16
  %9 = alloca [2 x i64], align 16
  %10 = alloca %struct.entry, align 8
  %11 = getelementptr inbounds i8, ptr %3, i64 48
  %12 = load ptr, ptr %11, align 8
  %13 = tail call ptr @PyEval_SaveThread()
  %14 = load i32, ptr @nki_monotonic_clock, align 4
  %15 = call i32 @clock_gettime(i32 %14, ptr %9)
  %16 = load i64, ptr %9, align 16
  %17 = mul i64 %16, 1000000000
  %18 = getelementptr inbounds i8, ptr %9, i64 8
  %19 = load i64, ptr %18, align 8
  %20 = add i64 %19, 100000000
  %21 = add i64 %20, %17
  %22 = getelementptr inbounds i8, ptr %8, i64 8
  br label %23

23:
  %24 = phi i64 [ 1, %7 ], [ %36, %35 ]
  %25 = load atomic i64, ptr %12 acquire, align 8
  switch i64 %25, label %54 [
    i64 0, label %26
    i64 1, label %37
  ]

26:
  %27 = call fastcc i1 @wait_after(i64 %24)
  br i1 %27, label %28, label %35

28:
  %29 = call i32 @clock_gettime(i32 %14, ptr %8)
  %30 = load i64, ptr %8, align 16
  %31 = mul i64 %30, 1000000000
  %32 = load i64, ptr %22, align 8
  %33 = add i64 %31, %32
  %34 = icmp sgt i64 %33, %21
  br i1 %34, label %54, label %35

35:
  %36 = add i64 %24, 1
  br label %23

37:
  store ptr %0, ptr %10, align 8
  %38 = getelementptr inbounds i8, ptr %10, i64 8
  store i64 %1, ptr %38, align 8
  %39 = getelementptr inbounds i8, ptr %10, i64 16
  store ptr %2, ptr %39, align 8
  %40 = getelementptr inbounds i8, ptr %10, i64 24
  store ptr %3, ptr %40, align 8
  call fastcc void @walk_entry(ptr %10)
  %41 = icmp sgt i64 %6, 0
  br i1 %41, label %42, label %51

42:
  %43 = mul i64 %6, %5
  %44 = getelementptr %struct.line, ptr %4, i64 %43
  br label %45

45:
  %46 = phi i64 [ 0, %42 ], [ %49, %45 ]
  %47 = getelementptr %struct.line, ptr %44, i64 %46
  %48 = getelementptr inbounds i8, ptr %47, i64 8
  store atomic i64 1, ptr %48 release, align 8
  %49 = add i64 %46, 1
  %50 = icmp eq i64 %49, %6
  br i1 %50, label %51, label %45

51:
  %52 = getelementptr inbounds i8, ptr %12, i64 16
  %53 = atomicrmw add ptr %52, i64 1 seq_cst, align 8
  br label %54

54:
  call void @PyEval_RestoreThread(ptr %13)
  ret i64 %25
}

define void @nki_run_on_openmp(ptr %0, i64 %1, ptr %2, ptr %3, ptr %4, ptr %5) {
  %7 = alloca %struct.parallel, align 8
  store ptr %0, ptr %7, align 8
  %8 = getelementptr inbounds i8, ptr %7, i64 8
  store i64 %1, ptr %8, align 8
  %9 = getelementptr inbounds i8, ptr %7, i64 16
  store ptr %2, ptr %9, align 8
  %10 = getelementptr inbounds i8, ptr %7, i64 24
  store ptr %3, ptr %10, align 8
  %11 = getelementptr inbounds i8, ptr %7, i64 32
  store ptr %5, ptr %11, align 8
  %12 = tail call ptr @PyEval_SaveThread()
  tail call fastcc void @begin_team(ptr %3)
  %13 = getelementptr inbounds i8, ptr %3, i64 56
  %14 = load ptr, ptr %13, align 8
  %15 = icmp eq ptr %14, null
  br i1 %15, label %21, label %16

16:
  %17 = getelementptr inbounds i8, ptr %14, i64 200
  store atomic i64 0, ptr %17 seq_cst, align 8
  %18 = getelementptr inbounds i8, ptr %3, i64 64
  %19 = load i64, ptr %18, align 8
  %20 = trunc i64 %19 to i32
  call void %4(ptr @run_member, ptr %7, i32 %20, i32 0)
  br label %22

21:
  call fastcc void @walk_entry(ptr %7)
  br label %22

22:
  %23 = load ptr, ptr %13, align 8
  %24 = icmp eq ptr %23, null
  br i1 %24, label %27, label %25

25:
  %26 = getelementptr inbounds i8, ptr %23, i64 128
  store atomic i64 0, ptr %26 seq_cst, align 64
  br label %27

27:
  call void @PyEval_RestoreThread(ptr %12)
  %28 = getelementptr inbounds i8, ptr %3, i64 48
  %29 = load ptr, ptr %28, align 8
  %30 = getelementptr inbounds i8, ptr %29, i64 24
  %31 = load atomic i64, ptr %30 seq_cst, align 8
  %32 = icmp eq i64 %31, 0
  br i1 %32, label %40, label %33

33:
  %34 = getelementptr inbounds i8, ptr %29, i64 32
  %35 = load ptr, ptr %34, align 8
  %36 = getelementptr inbounds i8, ptr %29, i64 40
  %37 = load ptr, ptr %36, align 8
  %38 = getelementptr inbounds i8, ptr %29, i64 48
  %39 = load ptr, ptr %38, align 8
  call void @PyErr_Restore(ptr %35, ptr %37, ptr %39)
  br label %40

40:
  ret void
}

define internal void @run_member(ptr %0) {
  %2 = getelementptr inbounds i8, ptr %0, i64 24
  %3 = load ptr, ptr %2, align 8
  %4 = getelementptr inbounds i8, ptr %3, i64 56
  %5 = load ptr, ptr %4, align 8
  %6 = getelementptr inbounds i8, ptr %0, i64 32
  %7 = load ptr, ptr %6, align 8
  %8 = tail call i32 %7()
  %9 = icmp eq i32 %8, 0
  br i1 %9, label %10, label %12

10:
  tail call fastcc void @walk_entry(ptr %0)
  %11 = getelementptr inbounds i8, ptr %5, i64 200
  store atomic i64 1, ptr %11 seq_cst, align 8
  tail call fastcc void @wake(ptr %5)
  br label %21

12:
  %13 = tail call fastcc i64 @begin_default()
  %14 = sext i32 %8 to i64
  tail call fastcc void @help(ptr %5, i64 %14)
  %15 = load i64, ptr @nki_floating_default, align 8
  %16 = xor i64 %15, %13
  %17 = load i64, ptr @nki_floating_changes, align 8
  %18 = and i64 %16, %17
  %19 = icmp eq i64 %18, 0
  br i1 %19, label %21, label %20

20:
  tail call void @nki_set_floating_control(i64 %13)
  br label %21

21:
  ret void
}

define void @nki_print(ptr %0, ptr %1, ptr %2) {
  %4 = getelementptr inbounds i8, ptr %0, i64 48
  %5 = load ptr, ptr %4, align 8
  %6 = getelementptr inbounds i8, ptr %5, i64 8
  %7 = load atomic i64, ptr %6 monotonic, align 8
  %8 = icmp eq i64 %7, 0
  br i1 %8, label %17, label %9

9:
  %10 = getelementptr inbounds i8, ptr %0, i64 16
  %11 = load ptr, ptr %10, align 8
  %12 = load i64, ptr %11, align 8
  %13 = icmp eq i64 %12, 0
  br i1 %13, label %14, label %32

14:
  store i64 -4611686018427387904, ptr %11, align 8
  %15 = load ptr, ptr %10, align 8
  %16 = getelementptr inbounds i8, ptr %15, i64 8
  store i64 -2, ptr %16, align 8
  br label %32

17:
  %18 = tail call i32 @PyGILState_Ensure()
  %19 = tail call fastcc ptr @call_with(ptr %2, ptr %1)
  %20 = icmp eq ptr %19, null
  br i1 %20, label %22, label %21

21:
  tail call void @Py_DecRef(ptr %19)
  br label %31

22:
  %23 = load ptr, ptr %4, align 8
  tail call fastcc void @keep_exception(ptr %23)
  %24 = getelementptr inbounds i8, ptr %0, i64 16
  %25 = load ptr, ptr %24, align 8
  %26 = load i64, ptr %25, align 8
  %27 = icmp eq i64 %26, 0
  br i1 %27, label %28, label %31

28:
  store i64 -4611686018427387904, ptr %25, align 8
  %29 = load ptr, ptr %24, align 8
  %30 = getelementptr inbounds i8, ptr %29, i64 8
  store i64 -2, ptr %30, align 8
  br label %31

31:
  tail call void @PyGILState_Release(i32 %18)
  br label %32

32:
  ret void
}

declare i32 @PyGILState_Ensure()

define internal fastcc ptr @call_with(ptr %0, ptr %1) {
  %3 = alloca ptr, align 8
  %4 = ptrtoint ptr %1 to i64
  %5 = tail call ptr @PyLong_FromLongLong(i64 %4)
  store ptr %5, ptr %3, align 8
  %6 = call ptr @PyObject_Vectorcall(ptr %0, ptr %3, i64 1, ptr null)
  %7 = load ptr, ptr %3, align 8
  call void @Py_DecRef(ptr %7)
  ret ptr %6
}

declare void @Py_DecRef(ptr)

define internal fastcc void @keep_exception(ptr %0) {
  %2 = getelementptr inbounds i8, ptr %0, i64 24
  %3 = atomicrmw xchg ptr %2, i64 1 seq_cst, align 8
  %4 = icmp eq i64 %3, 0
  br i1 %4, label %5, label %9

5:
  %6 = getelementptr inbounds i8, ptr %0, i64 32
  %7 = getelementptr inbounds i8, ptr %0, i64 40
  %8 = getelementptr inbounds i8, ptr %0, i64 48
  tail call void @PyErr_Fetch(ptr %6, ptr %7, ptr %8)
  br label %10

9:
  tail call void @PyErr_Clear()
  br label %10

10:
  %11 = getelementptr inbounds i8, ptr %0, i64 8
  store atomic i64 1, ptr %11 seq_cst, align 8
  ret void
}

declare void @PyGILState_Release(i32)

define ptr @nki_foreign(ptr %0, ptr %1, ptr %2) {
  %4 = alloca [128 x i8], align 8
  %5 = alloca ptr, align 8
  %6 = alloca ptr, align 8
  %7 = alloca ptr, align 8
  %8 = tail call i32 @PyGILState_Ensure()
  %9 = tail call fastcc ptr @call_with(ptr %1, ptr %0)
  %10 = icmp eq ptr %9, null
  br i1 %10, label %19, label %11

11:
  %12 = tail call ptr @PyLong_AsVoidPtr(ptr %9)
  %13 = ptrtoint ptr %12 to i64
  tail call void @Py_DecRef(ptr %9)
  %14 = and i64 %13, -2
  %15 = inttoptr i64 %14 to ptr
  %16 = and i64 %13, 1
  %17 = icmp eq i64 %16, 0
  br i1 %17, label %51, label %18

18:
  tail call void @PyErr_SetInterrupt()
  br label %51

19:
  %20 = getelementptr inbounds i8, ptr %4, i64 8
  call void @llvm.memset.p0.i64(ptr align 8 %20, i8 0, i64 120, i1 false)
  %21 = load ptr, ptr %2, align 8
  %22 = tail call i32 @PyErr_ExceptionMatches(ptr %21)
  %23 = icmp eq i32 %22, 0
  call void @PyErr_Fetch(ptr %5, ptr %6, ptr %7)
  %24 = getelementptr inbounds i8, ptr %2, i64 24
  %25 = load i64, ptr %24, align 8
  store i64 %25, ptr %4, align 8
  %26 = load ptr, ptr %5, align 8
  %27 = call ptr @PyExceptionClass_Name(ptr %26)
  %28 = getelementptr inbounds i8, ptr %2, i64 32
  %29 = load i64, ptr %28, align 8
  %30 = getelementptr inbounds i8, ptr %4, i64 %29
  store ptr %27, ptr %30, align 1
  %31 = getelementptr inbounds i8, ptr %2, i64 48
  %32 = load i64, ptr %31, align 8
  %33 = trunc i64 %32 to i32
  %34 = getelementptr inbounds i8, ptr %2, i64 40
  %35 = load i64, ptr %34, align 8
  %36 = getelementptr inbounds i8, ptr %4, i64 %35
  store i32 %33, ptr %36, align 1
  %37 = getelementptr inbounds i8, ptr %2, i64 8
  %38 = load i64, ptr %37, align 8
  %39 = getelementptr inbounds i8, ptr %0, i64 %38
  %40 = load ptr, ptr %39, align 8
  %41 = getelementptr inbounds i8, ptr %2, i64 16
  %42 = load i64, ptr %41, align 8
  %43 = getelementptr inbounds i8, ptr %40, i64 %42
  %44 = load ptr, ptr %43, align 8
  %45 = call ptr %44(ptr %4)
  %46 = load ptr, ptr %5, align 8
  %47 = load ptr, ptr %6, align 8
  %48 = load ptr, ptr %7, align 8
  call void @PyErr_Restore(ptr %46, ptr %47, ptr %48)
  call void @PyErr_Clear()
  br i1 %23, label %50, label %49

49:
  call void @PyErr_SetInterrupt()
  br label %50

50:
  br label %51

51:
  %52 = phi ptr [ %45, %50 ], [ %15, %18 ], [ %15, %11 ]
  call void @PyGILState_Release(i32 %8)
  ret ptr %52
}

declare ptr @PyLong_AsVoidPtr(ptr)

declare void @PyErr_SetInterrupt()

define internal fastcc void @walk(ptr %0, i64 %1, ptr %2, ptr %3) {
  %5 = getelementptr inbounds i8, ptr %3, i64 16
  %6 = load ptr, ptr %5, align 8
  %7 = icmp sgt i64 %1, 0
  br i1 %7, label %8, label %33

8:
  %9 = getelementptr inbounds i8, ptr %6, i64 32
  br label %10

10:
  %11 = phi i64 [ 0, %8 ], [ %30, %27 ]
  %12 = getelementptr inbounds %struct.row, ptr %0, i64 %11
  %13 = load ptr, ptr %12, align 8
  %14 = getelementptr inbounds i8, ptr %12, i64 8
  %15 = load i64, ptr %14, align 8
  %16 = getelementptr inbounds i64, ptr %2, i64 %15
  tail call void %13(ptr %3, ptr %16, i64 0, i64 9223372036854775807)
  %17 = and i64 %11, 31
  %18 = icmp eq i64 %17, 31
  br i1 %18, label %19, label %27

19:
  %20 = load i64, ptr %9, align 8
  %21 = add i64 %20, -1
  store i64 %21, ptr %9, align 8
  %22 = icmp slt i64 %21, -32
  br i1 %22, label %23, label %27

23:
  tail call fastcc void @poll_now(ptr %3, i64 4611686018427387904)
  %24 = load ptr, ptr %5, align 8
  %25 = getelementptr inbounds i8, ptr %24, i64 32
  %26 = load i64, ptr %25, align 8
  store i64 %26, ptr %9, align 8
  br label %27

27:
  %28 = load i64, ptr %6, align 8
  %29 = icmp ne i64 %28, 0
  %30 = add i64 %11, 1
  %31 = icmp eq i64 %30, %1
  %32 = select i1 %29, i1 true, i1 %31
  br i1 %32, label %33, label %10

33:
  ret void
}

declare i32 @clock_gettime(i32, ptr)

declare i32 @sched_yield()

declare i32 @pthread_mutex_lock(ptr)

declare i32 @pthread_cond_broadcast(ptr)

declare i32 @pthread_mutex_unlock(ptr)

define internal fastcc void @help(ptr %0, i64 %1) {
  %3 = getelementptr inbounds i8, ptr %0, i64 256
  %4 = getelementptr inbounds i8, ptr %0, i64 200
  %5 = load atomic i64, ptr %4 seq_cst, align 8
  %6 = icmp eq i64 %5, 0
  br i1 %6, label %7, label %20

7:
  %8 = getelementptr inbounds i8, ptr %0, i64 264
  %9 = getelementptr inbounds i8, ptr %0, i64 272
  %10 = getelementptr inbounds i8, ptr %0, i64 280
  %11 = getelementptr inbounds i8, ptr %0, i64 288
  %12 = getelementptr inbounds i8, ptr %0, i64 296
  %13 = getelementptr inbounds i8, ptr %0, i64 304
  %14 = getelementptr inbounds i8, ptr %0, i64 312
  %15 = getelementptr inbounds i8, ptr %0, i64 320
  %16 = getelementptr inbounds i8, ptr %0, i64 192
  %17 = getelementptr inbounds i8, ptr %0, i64 448
  %18 = add i64 %1, -1
  %19 = getelementptr inbounds i8, ptr %0, i64 64
  br label %21

20:
  ret void

21:
  %22 = phi i64 [ 0, %7 ], [ %103, %102 ]
  %23 = load atomic i64, ptr %0 seq_cst, align 64
  %24 = load atomic i64, ptr %3 monotonic, align 64
  %25 = load atomic i64, ptr %8 monotonic, align 8
  %26 = load atomic i64, ptr %9 monotonic, align 16
  %27 = load atomic i64, ptr %10 monotonic, align 8
  %28 = load atomic i64, ptr %11 monotonic, align 32
  %29 = load atomic i64, ptr %12 monotonic, align 8
  %30 = load atomic i64, ptr %13 monotonic, align 16
  %31 = load atomic i64, ptr %14 monotonic, align 8
  %32 = and i64 %23, 4294967295
  %33 = icmp ne i64 %32, 0
  %34 = icmp slt i64 %1, %31
  %35 = select i1 %33, i1 %34, i1 false
  br i1 %35, label %56, label %36

36:
  tail call void @nki_pause()
  %37 = add i64 %22, 1
  %38 = icmp sgt i64 %37, 2000
  br i1 %38, label %39, label %102

39:
  %40 = tail call i32 @pthread_mutex_lock(ptr %15)
  %41 = atomicrmw add ptr %16, i64 1 seq_cst, align 64
  %42 = load atomic i64, ptr %0 seq_cst, align 64
  %43 = xor i64 %42, %23
  %44 = icmp ult i64 %43, 4294967296
  br i1 %44, label %45, label %53

45:
  %46 = load atomic i64, ptr %4 seq_cst, align 8
  %47 = icmp eq i64 %46, 0
  br i1 %47, label %48, label %53

48:
  %49 = tail call i32 @pthread_cond_wait(ptr %17, ptr %15)
  %50 = load atomic i64, ptr %0 seq_cst, align 64
  %51 = xor i64 %50, %23
  %52 = icmp ult i64 %51, 4294967296
  br i1 %52, label %45, label %53

53:
  %54 = atomicrmw sub ptr %16, i64 1 seq_cst, align 64
  %55 = tail call i32 @pthread_mutex_unlock(ptr %15)
  br label %102

56:
  %57 = mul i64 %30, %1
  %58 = sdiv i64 %57, %31
  %59 = shl i64 -1, %58
  %60 = and i64 %59, %32
  %61 = icmp eq i64 %60, 0
  %62 = select i1 %61, i64 %32, i64 %60
  %63 = tail call i64 @llvm.cttz.i64(i64 %62, i1 true)
  %64 = shl i64 1, %63
  %65 = xor i64 %64, -1
  %66 = and i64 %23, %65
  %67 = cmpxchg ptr %0, i64 %23, i64 %66 seq_cst seq_cst, align 64
  %68 = extractvalue { i64, i1 } %67, 1
  br i1 %68, label %69, label %102

69:
  %70 = mul i64 %25, %18
  %71 = add i64 %70, %24
  %72 = inttoptr i64 %71 to ptr
  %73 = getelementptr inbounds i8, ptr %72, i64 48
  %74 = load ptr, ptr %73, align 8
  %75 = getelementptr inbounds i8, ptr %74, i64 8
  %76 = load atomic i64, ptr %75 monotonic, align 8
  %77 = icmp eq i64 %76, 0
  br i1 %77, label %78, label %100

78:
  %79 = inttoptr i64 %26 to ptr
  %80 = inttoptr i64 %28 to ptr
  %81 = mul i64 %63, %29
  %82 = add i64 %63, 1
  %83 = mul i64 %82, %29
  %84 = icmp sgt i64 %27, 0
  br i1 %84, label %85, label %100

85:
  %86 = getelementptr inbounds i8, ptr %72, i64 16
  br label %87

87:
  %88 = phi i64 [ 0, %85 ], [ %97, %87 ]
  %89 = getelementptr inbounds %struct.row, ptr %79, i64 %88
  %90 = load ptr, ptr %89, align 8
  %91 = getelementptr inbounds i8, ptr %89, i64 8
  %92 = load i64, ptr %91, align 8
  %93 = getelementptr inbounds i64, ptr %80, i64 %92
  tail call void %90(ptr %72, ptr %93, i64 %81, i64 %83)
  %94 = load ptr, ptr %86, align 8
  %95 = load i64, ptr %94, align 8
  %96 = icmp ne i64 %95, 0
  %97 = add i64 %88, 1
  %98 = icmp eq i64 %97, %27
  %99 = select i1 %96, i1 true, i1 %98
  br i1 %99, label %100, label %87

100:
  %101 = atomicrmw add ptr %19, i64 1 seq_cst, align 64
  br label %102

102:
  %103 = phi i64 [ %37, %36 ], [ 0, %53 ], [ 0, %56 ], [ 0, %100 ]
  %104 = load atomic i64, ptr %4 seq_cst, align 8
  %105 = icmp eq i64 %104, 0
  br i1 %105, label %21, label %20
}

declare void @nki_pause()

declare i32 @pthread_cond_wait(ptr, ptr)

declare i64 @llvm.cttz.i64(i64, i1)

define internal fastcc i64 @begin_default() {
  %1 = tail call i64 @nki_floating_control()
  %2 = load i64, ptr @nki_floating_default, align 8
  %3 = xor i64 %2, %1
  %4 = load i64, ptr @nki_floating_changes, align 8
  %5 = and i64 %3, %4
  %6 = icmp eq i64 %5, 0
  br i1 %6, label %8, label %7

7:
  tail call void @nki_set_floating_control(i64 %2)
  br label %8

8:
  ret i64 %1
}

declare i64 @nki_floating_control()

declare void @nki_set_floating_control(i64)

declare void @PyErr_Restore(ptr, ptr, ptr)

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

declare i32 @usleep(i32)

declare i32 @PyErr_CheckSignals()

declare ptr @PyLong_FromLongLong(i64)

declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)

declare void @PyErr_Fetch(ptr, ptr, ptr)

declare void @PyErr_Clear()

declare i32 @PyErr_ExceptionMatches(ptr)

declare ptr @PyExceptionClass_Name(ptr)

declare i64 @llvm.smax.i64(i64, i64)

declare i64 @llvm.smin.i64(i64, i64)
