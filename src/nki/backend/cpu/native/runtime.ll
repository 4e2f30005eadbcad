; Made by tools/native_runtime.py with clang version 22.1.8. SHA-256 of the C files:
; 45d06c817af21afac09da1a19fc444daa279895774adb9869814a3e3d5c98752

%struct.peer = type { i64, i64, i64 }
%struct.record = type { i64, i64 }
%struct.entry = type { ptr, i64 }
%struct.launch = type { ptr, i64 }
%struct.line = type { i64, i64, [2 x %struct.record], [2 x i64] }

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
  br i1 %32, label %33, label %63

33:
  %34 = sext i32 %31 to i64
  %35 = getelementptr inbounds i8, ptr %1, i64 56
  %36 = getelementptr inbounds i8, ptr %1, i64 64
  %37 = getelementptr inbounds i8, ptr %1, i64 72
  %38 = getelementptr inbounds i8, ptr %1, i64 48
  br label %39

39:
  %40 = phi i64 [ %34, %33 ], [ %61, %59 ]
  %41 = phi i64 [ %23, %33 ], [ %56, %59 ]
  %42 = trunc i64 %40 to i32
  store i32 %42, ptr %10, align 4
  %43 = load i64, ptr %35, align 8
  %44 = load i64, ptr %36, align 8
  tail call fastcc void @walk(ptr %0, i64 %43, i64 %44)
  %45 = add i64 %41, -1
  %46 = icmp slt i64 %45, -32
  br i1 %46, label %49, label %47

47:
  %48 = load ptr, ptr %20, align 8
  br label %54

49:
  %50 = load i64, ptr %37, align 8
  tail call fastcc void @poll_now(ptr %0, i64 %50)
  %51 = load ptr, ptr %20, align 8
  %52 = getelementptr inbounds i8, ptr %51, i64 32
  %53 = load i64, ptr %52, align 8
  br label %54

54:
  %55 = phi ptr [ %51, %49 ], [ %48, %47 ]
  %56 = phi i64 [ %53, %49 ], [ %45, %47 ]
  %57 = load i64, ptr %55, align 8
  %58 = icmp eq i64 %57, 0
  br i1 %58, label %59, label %63

59:
  %60 = load i64, ptr %38, align 8
  %61 = add i64 %60, %40
  %62 = icmp slt i64 %61, %19
  br i1 %62, label %39, label %63

63:
  %64 = phi ptr [ %21, %4 ], [ %55, %54 ], [ %55, %59 ]
  %65 = phi i64 [ %23, %4 ], [ %56, %54 ], [ %56, %59 ]
  %66 = getelementptr inbounds i8, ptr %64, i64 32
  store i64 %65, ptr %66, align 8
  %67 = load ptr, ptr %20, align 8
  %68 = load i64, ptr %67, align 8
  %69 = icmp eq i64 %68, -4611686018427387904
  br i1 %69, label %70, label %74

70:
  %71 = getelementptr inbounds i8, ptr %1, i64 72
  %72 = load i64, ptr %71, align 8
  %73 = sub i64 0, %72
  store i64 %73, ptr %67, align 8
  br label %74

74:
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
  %16 = getelementptr inbounds i8, ptr %1, i64 24
  %17 = getelementptr inbounds i8, ptr %1, i64 32
  %18 = load i32, ptr %10, align 4
  %19 = icmp eq i32 %18, 0
  br i1 %19, label %42, label %23

20:
  %21 = load i32, ptr %10, align 4
  %22 = icmp eq i32 %21, 0
  br i1 %22, label %42, label %23

23:
  %24 = phi i64 [ %38, %20 ], [ %14, %4 ]
  %25 = load i64, ptr %15, align 8
  %26 = load i64, ptr %16, align 8
  tail call fastcc void @walk(ptr %0, i64 %25, i64 %26)
  %27 = add i64 %24, -1
  %28 = icmp slt i64 %27, -32
  br i1 %28, label %31, label %29

29:
  %30 = load ptr, ptr %11, align 8
  br label %36

31:
  %32 = load i64, ptr %17, align 8
  tail call fastcc void @poll_now(ptr %0, i64 %32)
  %33 = load ptr, ptr %11, align 8
  %34 = getelementptr inbounds i8, ptr %33, i64 32
  %35 = load i64, ptr %34, align 8
  br label %36

36:
  %37 = phi ptr [ %33, %31 ], [ %30, %29 ]
  %38 = phi i64 [ %35, %31 ], [ %27, %29 ]
  %39 = load i64, ptr %37, align 8
  %40 = icmp eq i64 %39, 0
  br i1 %40, label %20, label %41

41:
  br label %42

42:
  %43 = phi ptr [ %12, %4 ], [ %37, %41 ], [ %37, %20 ]
  %44 = phi i64 [ %14, %4 ], [ %38, %41 ], [ %38, %20 ]
  %45 = getelementptr inbounds i8, ptr %43, i64 32
  store i64 %44, ptr %45, align 8
  %46 = load ptr, ptr %11, align 8
  %47 = load i64, ptr %46, align 8
  %48 = icmp eq i64 %47, -4611686018427387904
  br i1 %48, label %49, label %52

49:
  %50 = load i64, ptr %17, align 8
  %51 = sub i64 0, %50
  store i64 %51, ptr %46, align 8
  br label %52

52:
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
  br i1 %11, label %12, label %117

12:
  %13 = getelementptr inbounds i8, ptr %1, i64 24
  %14 = load i64, ptr %13, align 8
  %15 = icmp sgt i64 %14, 0
  br i1 %15, label %16, label %117

16:
  %17 = getelementptr inbounds i8, ptr %1, i64 32
  %18 = getelementptr inbounds i8, ptr %1, i64 8
  %19 = getelementptr inbounds i8, ptr %1, i64 16
  br label %25

20:
  %21 = icmp sgt i64 %39, 0
  br i1 %21, label %22, label %117

22:
  %23 = getelementptr inbounds i8, ptr %1, i64 32
  %24 = getelementptr inbounds i8, ptr %1, i64 8
  br label %45

25:
  %26 = phi i64 [ 0, %16 ], [ %38, %25 ]
  %27 = getelementptr inbounds %struct.peer, ptr %17, i64 %26
  %28 = load i64, ptr %27, align 8
  %29 = getelementptr inbounds i8, ptr %7, i64 %28
  %30 = load atomic i64, ptr %29 monotonic, align 8
  %31 = add i64 %30, 1
  %32 = getelementptr inbounds i8, ptr %29, i64 16
  %33 = and i64 %31, 1
  %34 = getelementptr inbounds %struct.record, ptr %32, i64 %33
  %35 = load i64, ptr %18, align 8
  %36 = load i64, ptr %19, align 8
  store i64 %35, ptr %34, align 8
  %37 = getelementptr inbounds i8, ptr %34, i64 8
  store i64 %36, ptr %37, align 8
  store atomic i64 %31, ptr %29 release, align 8
  %38 = add i64 %26, 1
  %39 = load i64, ptr %13, align 8
  %40 = icmp slt i64 %38, %39
  br i1 %40, label %25, label %20

41:
  %42 = add i64 %46, 1
  %43 = load i64, ptr %13, align 8
  %44 = icmp slt i64 %42, %43
  br i1 %44, label %45, label %117

45:
  %46 = phi i64 [ 0, %22 ], [ %42, %41 ]
  %47 = getelementptr inbounds %struct.peer, ptr %23, i64 %46
  %48 = load i64, ptr %47, align 8
  %49 = getelementptr inbounds i8, ptr %7, i64 %48
  %50 = getelementptr inbounds i8, ptr %47, i64 8
  %51 = load i64, ptr %50, align 8
  %52 = getelementptr inbounds i8, ptr %7, i64 %51
  %53 = load atomic i64, ptr %49 monotonic, align 8
  %54 = load atomic i64, ptr %52 acquire, align 8
  %55 = icmp slt i64 %54, %53
  br i1 %55, label %56, label %73

56:
  %57 = getelementptr inbounds i8, ptr %52, i64 8
  br label %58

58:
  %59 = phi i64 [ 0, %56 ], [ %70, %69 ]
  %60 = load atomic i64, ptr %57 acquire, align 8
  %61 = icmp eq i64 %60, 0
  br i1 %61, label %62, label %77

62:
  %63 = icmp sgt i64 %59, 2000
  br i1 %63, label %64, label %69

64:
  %65 = tail call i32 @sched_yield()
  tail call fastcc void @poll_now(ptr %0, i64 4611686018427387904)
  %66 = load ptr, ptr %8, align 8
  %67 = load i64, ptr %66, align 8
  %68 = icmp eq i64 %67, 0
  br i1 %68, label %69, label %98

69:
  %70 = add i64 %59, 1
  %71 = load atomic i64, ptr %52 acquire, align 8
  %72 = icmp slt i64 %71, %53
  br i1 %72, label %58, label %73

73:
  %74 = getelementptr inbounds i8, ptr %52, i64 16
  %75 = and i64 %53, 1
  %76 = getelementptr inbounds %struct.record, ptr %74, i64 %75
  br label %83

77:
  %78 = load atomic i64, ptr %52 acquire, align 8
  %79 = icmp slt i64 %78, %53
  %80 = getelementptr inbounds i8, ptr %52, i64 16
  %81 = and i64 %53, 1
  %82 = getelementptr inbounds %struct.record, ptr %80, i64 %81
  br i1 %79, label %91, label %83

83:
  %84 = phi ptr [ %76, %73 ], [ %82, %77 ]
  %85 = load i64, ptr %84, align 8
  %86 = load i64, ptr %24, align 8
  %87 = icmp eq i64 %85, %86
  br i1 %87, label %41, label %88

88:
  %89 = load i64, ptr %9, align 8
  %90 = icmp eq i64 %89, 0
  br i1 %90, label %105, label %117

91:
  %92 = load i64, ptr %9, align 8
  %93 = icmp eq i64 %92, 0
  br i1 %93, label %94, label %117

94:
  %95 = getelementptr inbounds i8, ptr %1, i64 16
  %96 = load i64, ptr %95, align 8
  store i64 %96, ptr %9, align 8
  %97 = getelementptr inbounds i8, ptr %9, i64 8
  store i64 -1, ptr %97, align 8
  br label %111

98:
  %99 = load i64, ptr %9, align 8
  %100 = icmp eq i64 %99, 0
  br i1 %100, label %101, label %117

101:
  %102 = getelementptr inbounds i8, ptr %1, i64 16
  %103 = load i64, ptr %102, align 8
  store i64 %103, ptr %9, align 8
  %104 = getelementptr inbounds i8, ptr %9, i64 8
  store i64 -1, ptr %104, align 8
  br label %111

105:
  %106 = getelementptr inbounds i8, ptr %1, i64 16
  %107 = load i64, ptr %106, align 8
  store i64 %107, ptr %9, align 8
  %108 = getelementptr inbounds i8, ptr %9, i64 8
  store i64 -1, ptr %108, align 8
  %109 = getelementptr inbounds i8, ptr %84, i64 8
  %110 = load i64, ptr %109, align 8
  br label %111

111:
  %112 = phi i64 [ %110, %105 ], [ 0, %94 ], [ 0, %101 ]
  %113 = getelementptr inbounds i8, ptr %9, i64 16
  store i64 %112, ptr %113, align 8
  %114 = getelementptr inbounds i8, ptr %47, i64 16
  %115 = load i64, ptr %114, align 8
  %116 = getelementptr inbounds i8, ptr %9, i64 24
  store i64 %115, ptr %116, align 8
  br label %117

117:
  ret void
}

define ptr @nki_new_pool(ptr %0, ptr %1) {
  %3 = tail call ptr @calloc(i64 1, i64 704)
  %4 = icmp eq ptr %3, null
  br i1 %4, label %16, label %5

5:
  %6 = ptrtoint ptr %3 to i64
  %7 = sub i64 0, %6
  %8 = and i64 %7, 63
  %9 = getelementptr inbounds i8, ptr %3, i64 %8
  %10 = getelementptr inbounds i8, ptr %9, i64 320
  store ptr %0, ptr %10, align 64
  %11 = getelementptr inbounds i8, ptr %9, i64 328
  store ptr %1, ptr %11, align 8
  %12 = getelementptr inbounds i8, ptr %9, i64 384
  %13 = tail call i32 @pthread_mutex_init(ptr %12, ptr null)
  %14 = getelementptr inbounds i8, ptr %9, i64 512
  %15 = tail call i32 @pthread_cond_init(ptr %14, ptr null)
  br label %16

16:
  %17 = phi ptr [ %9, %5 ], [ null, %2 ]
  ret ptr %17
}

declare ptr @calloc(i64, i64)

declare i32 @pthread_mutex_init(ptr, ptr)

declare i32 @pthread_cond_init(ptr, ptr)

define void @nki_stop_pool(ptr %0) {
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
  %6 = getelementptr inbounds i8, ptr %0, i64 384
  %7 = tail call i32 @pthread_mutex_lock(ptr %6)
  %8 = getelementptr inbounds i8, ptr %0, i64 512
  %9 = tail call i32 @pthread_cond_broadcast(ptr %8)
  %10 = tail call i32 @pthread_mutex_unlock(ptr %6)
  br label %11

11:
  ret void
}

define i64 @nki_start_worker(ptr %0, i64 %1) {
  %3 = alloca i64, align 8
  store i64 0, ptr %3, align 8
  %4 = tail call ptr @calloc(i64 1, i64 16)
  %5 = icmp eq ptr %4, null
  br i1 %5, label %12, label %6

6:
  store ptr %0, ptr %4, align 8
  %7 = getelementptr inbounds i8, ptr %4, i64 8
  store i64 %1, ptr %7, align 8
  %8 = call i32 @pthread_create(ptr %3, ptr null, ptr @run_worker, ptr %4)
  %9 = icmp eq i32 %8, 0
  %10 = load i64, ptr %3, align 8
  %11 = select i1 %9, i64 %10, i64 0
  br label %12

12:
  %13 = phi i64 [ %11, %6 ], [ 0, %2 ]
  ret i64 %13
}

declare i32 @pthread_create(ptr, ptr, ptr, ptr)

define internal ptr @run_worker(ptr %0) {
  %2 = load ptr, ptr %0, align 8
  %3 = getelementptr inbounds i8, ptr %0, i64 8
  %4 = load i64, ptr %3, align 8
  tail call fastcc void @work(ptr %2, i64 %4)
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
  %51 = getelementptr inbounds %struct.entry, ptr %49, i64 %50
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
  %8 = getelementptr inbounds %struct.entry, ptr %6, i64 %7
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
  %20 = getelementptr inbounds %struct.entry, ptr %8, i64 %19
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

define void @nki_run(ptr %0, i64 %1) {
  %3 = alloca %struct.launch, align 8
  %4 = tail call ptr @PyEval_SaveThread()
  %5 = getelementptr inbounds i8, ptr %0, i64 56
  %6 = load ptr, ptr %5, align 8
  %7 = icmp eq ptr %6, null
  br i1 %7, label %75, label %8

8:
  %9 = getelementptr inbounds i8, ptr %6, i64 128
  %10 = atomicrmw xchg ptr %9, i64 1 seq_cst, align 64
  %11 = icmp eq i64 %10, 0
  br i1 %11, label %13, label %12

12:
  store ptr null, ptr %5, align 8
  br label %75

13:
  %14 = getelementptr inbounds i8, ptr %0, i64 16
  %15 = load ptr, ptr %14, align 8
  %16 = ptrtoint ptr %15 to i64
  %17 = ptrtoint ptr %0 to i64
  %18 = sub i64 %16, %17
  %19 = sdiv i64 %18, 8
  %20 = getelementptr inbounds i8, ptr %0, i64 64
  %21 = load i64, ptr %20, align 8
  %22 = add i64 %21, -1
  %23 = icmp sgt i64 %22, 0
  br i1 %23, label %24, label %63

24:
  %25 = getelementptr inbounds i8, ptr %0, i64 72
  %26 = getelementptr inbounds i8, ptr %0, i64 80
  %27 = icmp sgt i64 %18, 7
  br label %28

28:
  %29 = phi i64 [ 0, %24 ], [ %52, %38 ]
  %30 = load ptr, ptr %25, align 8
  %31 = load i64, ptr %26, align 8
  %32 = mul i64 %31, %29
  %33 = getelementptr inbounds i8, ptr %30, i64 %32
  br i1 %27, label %56, label %38

34:
  %35 = load ptr, ptr %25, align 8
  %36 = load i64, ptr %26, align 8
  %37 = mul i64 %36, %29
  br label %38

38:
  %39 = phi i64 [ %37, %34 ], [ %32, %28 ]
  %40 = phi ptr [ %35, %34 ], [ %30, %28 ]
  %41 = getelementptr inbounds i8, ptr %40, i64 %39
  %42 = load ptr, ptr %14, align 8
  %43 = ptrtoint ptr %42 to i64
  %44 = sub i64 %43, %17
  %45 = getelementptr inbounds i8, ptr %41, i64 %44
  %46 = getelementptr inbounds i8, ptr %33, i64 16
  store ptr %45, ptr %46, align 8
  %47 = load ptr, ptr %0, align 8
  %48 = ptrtoint ptr %47 to i64
  %49 = sub i64 %48, %17
  %50 = getelementptr inbounds i8, ptr %33, i64 %49
  %51 = getelementptr inbounds i8, ptr %33, i64 8
  store ptr %50, ptr %51, align 8
  tail call void @llvm.memset.p0.i64(ptr align 8 %45, i8 0, i64 64, i1 false)
  %52 = add i64 %29, 1
  %53 = load i64, ptr %20, align 8
  %54 = add i64 %53, -1
  %55 = icmp slt i64 %52, %54
  br i1 %55, label %28, label %63

56:
  %57 = phi i64 [ %61, %56 ], [ 0, %28 ]
  %58 = getelementptr inbounds i64, ptr %0, i64 %57
  %59 = load i64, ptr %58, align 8
  %60 = getelementptr inbounds i64, ptr %33, i64 %57
  store i64 %59, ptr %60, align 8
  %61 = add i64 %57, 1
  %62 = icmp eq i64 %61, %19
  br i1 %62, label %34, label %56

63:
  %64 = load ptr, ptr %5, align 8
  %65 = icmp eq ptr %64, null
  br i1 %65, label %75, label %66

66:
  %67 = getelementptr inbounds i8, ptr %64, i64 320
  %68 = load ptr, ptr %67, align 64
  %69 = icmp eq ptr %68, null
  br i1 %69, label %75, label %70

70:
  %71 = getelementptr inbounds i8, ptr %64, i64 200
  store atomic i64 0, ptr %71 seq_cst, align 8
  store ptr %0, ptr %3, align 8
  %72 = getelementptr inbounds i8, ptr %3, i64 8
  store i64 %1, ptr %72, align 8
  %73 = load i64, ptr %20, align 8
  %74 = trunc i64 %73 to i32
  call void %68(ptr @run_member, ptr %3, i32 %74, i32 0)
  br label %76

75:
  tail call fastcc void @walk_in_default(ptr %0, i64 0, i64 %1)
  br label %76

76:
  %77 = load ptr, ptr %5, align 8
  %78 = icmp eq ptr %77, null
  br i1 %78, label %81, label %79

79:
  %80 = getelementptr inbounds i8, ptr %77, i64 128
  store atomic i64 0, ptr %80 seq_cst, align 64
  br label %81

81:
  call void @PyEval_RestoreThread(ptr %4)
  %82 = getelementptr inbounds i8, ptr %0, i64 48
  %83 = load ptr, ptr %82, align 8
  %84 = getelementptr inbounds i8, ptr %83, i64 24
  %85 = load atomic i64, ptr %84 seq_cst, align 8
  %86 = icmp eq i64 %85, 0
  br i1 %86, label %94, label %87

87:
  %88 = getelementptr inbounds i8, ptr %83, i64 32
  %89 = load ptr, ptr %88, align 8
  %90 = getelementptr inbounds i8, ptr %83, i64 40
  %91 = load ptr, ptr %90, align 8
  %92 = getelementptr inbounds i8, ptr %83, i64 48
  %93 = load ptr, ptr %92, align 8
  call void @PyErr_Restore(ptr %89, ptr %91, ptr %93)
  br label %94

94:
  ret void
}

declare ptr @PyEval_SaveThread()

define internal void @run_member(ptr %0) {
  %2 = load ptr, ptr %0, align 8
  %3 = getelementptr inbounds i8, ptr %2, i64 56
  %4 = load ptr, ptr %3, align 8
  %5 = getelementptr inbounds i8, ptr %4, i64 328
  %6 = load ptr, ptr %5, align 8
  %7 = tail call i32 %6()
  %8 = icmp eq i32 %7, 0
  br i1 %8, label %9, label %14

9:
  %10 = load ptr, ptr %0, align 8
  %11 = getelementptr inbounds i8, ptr %0, i64 8
  %12 = load i64, ptr %11, align 8
  tail call fastcc void @walk_in_default(ptr %10, i64 0, i64 %12)
  %13 = getelementptr inbounds i8, ptr %4, i64 200
  store atomic i64 1, ptr %13 seq_cst, align 8
  tail call fastcc void @wake(ptr %4)
  br label %23

14:
  %15 = tail call fastcc i64 @begin_default()
  %16 = sext i32 %7 to i64
  tail call fastcc void @work(ptr %4, i64 %16)
  %17 = load i64, ptr @nki_floating_default, align 8
  %18 = xor i64 %17, %15
  %19 = load i64, ptr @nki_floating_changes, align 8
  %20 = and i64 %18, %19
  %21 = icmp eq i64 %20, 0
  br i1 %21, label %23, label %22

22:
  tail call void @nki_set_floating_control(i64 %15)
  br label %23

23:
  ret void
}

define internal fastcc void @walk_in_default(ptr %0, i64 %1, i64 %2) {
  %4 = tail call fastcc i64 @begin_default()
  tail call fastcc void @walk(ptr %0, i64 %1, i64 %2)
  %5 = load i64, ptr @nki_floating_default, align 8
  %6 = xor i64 %5, %4
  %7 = load i64, ptr @nki_floating_changes, align 8
  %8 = and i64 %6, %7
  %9 = icmp eq i64 %8, 0
  br i1 %9, label %11, label %10

10:
  tail call void @nki_set_floating_control(i64 %4)
  br label %11

11:
  ret void
}

declare void @PyEval_RestoreThread(ptr)

define void @nki_lead(ptr %0, i64 %1, i64 %2, ptr %3, i64 %4) {
  %6 = getelementptr inbounds i8, ptr %0, i64 48
  %7 = load ptr, ptr %6, align 8
  %8 = tail call ptr @PyEval_SaveThread()
  store atomic i64 1, ptr %7 seq_cst, align 8
  tail call fastcc void @walk_in_default(ptr %0, i64 %1, i64 %2)
  %9 = icmp sgt i64 %4, 0
  br i1 %9, label %10, label %21

10:
  %11 = getelementptr inbounds i8, ptr %0, i64 40
  %12 = load i64, ptr %11, align 8
  %13 = mul i64 %12, %4
  %14 = getelementptr %struct.line, ptr %3, i64 %13
  br label %15

15:
  %16 = phi i64 [ 0, %10 ], [ %19, %15 ]
  %17 = getelementptr %struct.line, ptr %14, i64 %16
  %18 = getelementptr inbounds i8, ptr %17, i64 8
  store atomic i64 1, ptr %18 release, align 8
  %19 = add i64 %16, 1
  %20 = icmp eq i64 %19, %4
  br i1 %20, label %21, label %15

21:
  %22 = getelementptr inbounds i8, ptr %7, i64 16
  %23 = add i64 %4, -1
  %24 = load atomic i64, ptr %22 acquire, align 8
  %25 = icmp slt i64 %24, %23
  br i1 %25, label %38, label %26

26:
  tail call void @PyEval_RestoreThread(ptr %8)
  %27 = getelementptr inbounds i8, ptr %7, i64 24
  %28 = load atomic i64, ptr %27 seq_cst, align 8
  %29 = icmp eq i64 %28, 0
  br i1 %29, label %37, label %30

30:
  %31 = getelementptr inbounds i8, ptr %7, i64 32
  %32 = load ptr, ptr %31, align 8
  %33 = getelementptr inbounds i8, ptr %7, i64 40
  %34 = load ptr, ptr %33, align 8
  %35 = getelementptr inbounds i8, ptr %7, i64 48
  %36 = load ptr, ptr %35, align 8
  tail call void @PyErr_Restore(ptr %32, ptr %34, ptr %36)
  br label %37

37:
  ret void

38:
  %39 = phi i64 [ %43, %42 ], [ 1, %21 ]
  %40 = tail call fastcc i1 @wait_after(i64 %39)
  br i1 %40, label %41, label %42

41:
  tail call fastcc void @poll_now(ptr %0, i64 4611686018427387904)
  br label %42

42:
  %43 = add i64 %39, 1
  %44 = load atomic i64, ptr %22 acquire, align 8
  %45 = icmp slt i64 %44, %23
  br i1 %45, label %38, label %26
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

define i64 @nki_follow(ptr %0, i64 %1, i64 %2, ptr %3, i64 %4) {
  %6 = alloca [2 x i64], align 16
  %7 = alloca [2 x i64], align 16
  %8 = getelementptr inbounds i8, ptr %0, i64 48
  %9 = load ptr, ptr %8, align 8
  %10 = tail call ptr @PyEval_SaveThread()
  %11 = load i32, ptr @nki_monotonic_clock, align 4
  %12 = call i32 @clock_gettime(i32 %11, ptr %7)
  %13 = load i64, ptr %7, align 16
  %14 = mul i64 %13, 1000000000
  %15 = getelementptr inbounds i8, ptr %7, i64 8
  %16 = load i64, ptr %15, align 8
  %17 = add i64 %16, 100000000
  %18 = add i64 %17, %14
  %19 = getelementptr inbounds i8, ptr %6, i64 8
  br label %20

20:
  %21 = phi i64 [ 1, %5 ], [ %33, %32 ]
  %22 = load atomic i64, ptr %9 acquire, align 8
  switch i64 %22, label %50 [
    i64 0, label %23
    i64 1, label %34
  ]

23:
  %24 = call fastcc i1 @wait_after(i64 %21)
  br i1 %24, label %25, label %32

25:
  %26 = call i32 @clock_gettime(i32 %11, ptr %6)
  %27 = load i64, ptr %6, align 16
  %28 = mul i64 %27, 1000000000
  %29 = load i64, ptr %19, align 8
  %30 = add i64 %28, %29
  %31 = icmp sgt i64 %30, %18
  br i1 %31, label %50, label %32

32:
  %33 = add i64 %21, 1
  br label %20

34:
  call fastcc void @walk_in_default(ptr %0, i64 %1, i64 %2)
  %35 = icmp sgt i64 %4, 0
  br i1 %35, label %36, label %47

36:
  %37 = getelementptr inbounds i8, ptr %0, i64 40
  %38 = load i64, ptr %37, align 8
  %39 = mul i64 %38, %4
  %40 = getelementptr %struct.line, ptr %3, i64 %39
  br label %41

41:
  %42 = phi i64 [ 0, %36 ], [ %45, %41 ]
  %43 = getelementptr %struct.line, ptr %40, i64 %42
  %44 = getelementptr inbounds i8, ptr %43, i64 8
  store atomic i64 1, ptr %44 release, align 8
  %45 = add i64 %42, 1
  %46 = icmp eq i64 %45, %4
  br i1 %46, label %47, label %41

47:
  %48 = getelementptr inbounds i8, ptr %9, i64 16
  %49 = atomicrmw add ptr %48, i64 1 seq_cst, align 8
  br label %50

50:
  call void @PyEval_RestoreThread(ptr %10)
  ret i64 %22
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

define internal fastcc void @walk(ptr %0, i64 %1, i64 %2) {
  %4 = getelementptr inbounds i8, ptr %0, i64 24
  %5 = load ptr, ptr %4, align 8
  %6 = getelementptr inbounds %struct.entry, ptr %5, i64 %1
  %7 = getelementptr inbounds i8, ptr %0, i64 32
  %8 = load ptr, ptr %7, align 8
  %9 = getelementptr inbounds i8, ptr %0, i64 16
  %10 = load ptr, ptr %9, align 8
  %11 = icmp sgt i64 %2, 0
  br i1 %11, label %12, label %37

12:
  %13 = getelementptr inbounds i8, ptr %10, i64 32
  br label %14

14:
  %15 = phi i64 [ 0, %12 ], [ %34, %31 ]
  %16 = getelementptr inbounds %struct.entry, ptr %6, i64 %15
  %17 = load ptr, ptr %16, align 8
  %18 = getelementptr inbounds i8, ptr %16, i64 8
  %19 = load i64, ptr %18, align 8
  %20 = getelementptr inbounds i64, ptr %8, i64 %19
  tail call void %17(ptr %0, ptr %20, i64 0, i64 9223372036854775807)
  %21 = and i64 %15, 31
  %22 = icmp eq i64 %21, 31
  br i1 %22, label %23, label %31

23:
  %24 = load i64, ptr %13, align 8
  %25 = add i64 %24, -1
  store i64 %25, ptr %13, align 8
  %26 = icmp slt i64 %25, -32
  br i1 %26, label %27, label %31

27:
  tail call fastcc void @poll_now(ptr %0, i64 4611686018427387904)
  %28 = load ptr, ptr %9, align 8
  %29 = getelementptr inbounds i8, ptr %28, i64 32
  %30 = load i64, ptr %29, align 8
  store i64 %30, ptr %13, align 8
  br label %31

31:
  %32 = load i64, ptr %10, align 8
  %33 = icmp ne i64 %32, 0
  %34 = add i64 %15, 1
  %35 = icmp eq i64 %34, %2
  %36 = select i1 %33, i1 true, i1 %35
  br i1 %36, label %37, label %14

37:
  ret void
}

declare i32 @clock_gettime(i32, ptr)

declare i32 @sched_yield()

declare i32 @pthread_mutex_lock(ptr)

declare i32 @pthread_cond_broadcast(ptr)

declare i32 @pthread_mutex_unlock(ptr)

define internal fastcc void @work(ptr %0, i64 %1) {
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
  %15 = getelementptr inbounds i8, ptr %0, i64 384
  %16 = getelementptr inbounds i8, ptr %0, i64 192
  %17 = getelementptr inbounds i8, ptr %0, i64 512
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
  %89 = getelementptr inbounds %struct.entry, ptr %79, i64 %88
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

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

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
