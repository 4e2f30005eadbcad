; Made by tools/native_runtime.py with clang version 22.1.8. SHA-256 of the C files:
; 45d06c817af21afac09da1a19fc444daa279895774adb9869814a3e3d5c98752

%union.anon.3 = type { [6 x i32] }
%union.anon.2 = type { [6 x <4 x i32>] }

define void @nki_top8(ptr %0, i64 %1, ptr %2, i64 %3, i64 %4, i64 %5) {
  %7 = icmp sgt i64 %4, 0
  br i1 %7, label %8, label %179

8:
  %9 = icmp slt i64 %5, 16
  br label %10

10:
  %11 = phi ptr [ %0, %8 ], [ %141, %100 ]
  %12 = phi i64 [ %4, %8 ], [ %140, %100 ]
  %13 = phi ptr [ %2, %8 ], [ %142, %100 ]
  br i1 %9, label %25, label %36

14:
  %15 = phi i32 [ %37, %36 ], [ %94, %62 ]
  %16 = phi i32 [ %38, %36 ], [ %92, %62 ]
  %17 = phi i32 [ %39, %36 ], [ %90, %62 ]
  %18 = phi i32 [ %40, %36 ], [ %88, %62 ]
  %19 = phi i32 [ %41, %36 ], [ %86, %62 ]
  %20 = phi i32 [ %42, %36 ], [ %84, %62 ]
  %21 = phi i32 [ %43, %36 ], [ %96, %62 ]
  %22 = phi i32 [ %46, %36 ], [ %82, %62 ]
  %23 = add i64 %44, 16
  %24 = icmp sgt i64 %23, %5
  br i1 %24, label %25, label %36

25:
  %26 = phi i32 [ -2147483648, %10 ], [ %21, %14 ]
  %27 = phi i32 [ -2147483648, %10 ], [ %15, %14 ]
  %28 = phi i32 [ -2147483648, %10 ], [ %16, %14 ]
  %29 = phi i32 [ -2147483648, %10 ], [ %17, %14 ]
  %30 = phi i32 [ -2147483648, %10 ], [ %18, %14 ]
  %31 = phi i32 [ -2147483648, %10 ], [ %19, %14 ]
  %32 = phi i32 [ -2147483648, %10 ], [ %20, %14 ]
  %33 = phi i32 [ -2147483648, %10 ], [ %22, %14 ]
  %34 = phi i64 [ 0, %10 ], [ %44, %14 ]
  %35 = icmp slt i64 %34, %5
  br i1 %35, label %144, label %100

36:
  %37 = phi i32 [ %15, %14 ], [ -2147483648, %10 ]
  %38 = phi i32 [ %16, %14 ], [ -2147483648, %10 ]
  %39 = phi i32 [ %17, %14 ], [ -2147483648, %10 ]
  %40 = phi i32 [ %18, %14 ], [ -2147483648, %10 ]
  %41 = phi i32 [ %19, %14 ], [ -2147483648, %10 ]
  %42 = phi i32 [ %20, %14 ], [ -2147483648, %10 ]
  %43 = phi i32 [ %21, %14 ], [ -2147483648, %10 ]
  %44 = phi i64 [ %23, %14 ], [ 16, %10 ]
  %45 = phi i64 [ %44, %14 ], [ 0, %10 ]
  %46 = phi i32 [ %22, %14 ], [ -2147483648, %10 ]
  %47 = getelementptr inbounds float, ptr %13, i64 %45
  %48 = load <16 x float>, ptr %47, align 4
  %49 = bitcast <16 x float> %48 to <16 x i32>
  %50 = fcmp ord <16 x float> %48, zeroinitializer
  %51 = icmp slt <16 x i32> %49, zeroinitializer
  %52 = select <16 x i1> %51, <16 x i32> splat (i32 2147483647), <16 x i32> zeroinitializer
  %53 = xor <16 x i32> %52, %49
  %54 = select <16 x i1> %50, <16 x i32> %53, <16 x i32> splat (i32 2143289344)
  %55 = insertelement <16 x i32> poison, i32 %43, i64 0
  %56 = shufflevector <16 x i32> %55, <16 x i32> poison, <16 x i32> zeroinitializer
  %57 = icmp sgt <16 x i32> %54, %56
  %58 = bitcast <16 x i1> %57 to i16
  %59 = icmp eq i16 %58, 0
  br i1 %59, label %14, label %60

60:
  %61 = zext i16 %58 to i32
  br label %62

62:
  %63 = phi i32 [ %94, %62 ], [ %37, %60 ]
  %64 = phi i32 [ %92, %62 ], [ %38, %60 ]
  %65 = phi i32 [ %90, %62 ], [ %39, %60 ]
  %66 = phi i32 [ %88, %62 ], [ %40, %60 ]
  %67 = phi i32 [ %86, %62 ], [ %41, %60 ]
  %68 = phi i32 [ %84, %62 ], [ %42, %60 ]
  %69 = phi i32 [ %98, %62 ], [ %61, %60 ]
  %70 = phi i32 [ %82, %62 ], [ %46, %60 ]
  %71 = phi i32 [ %96, %62 ], [ %43, %60 ]
  %72 = tail call i32 @llvm.cttz.i32(i32 %69, i1 true)
  %73 = zext i32 %72 to i64
  %74 = getelementptr float, ptr %47, i64 %73
  %75 = load float, ptr %74, align 4
  %76 = fcmp uno float %75, 0.000000e+00
  %77 = bitcast float %75 to i32
  %78 = icmp slt i32 %77, 0
  %79 = select i1 %78, i32 2147483647, i32 0
  %80 = xor i32 %79, %77
  %81 = select i1 %76, i32 2143289344, i32 %80
  %82 = tail call i32 @llvm.smax.i32(i32 %70, i32 %81)
  %83 = tail call i32 @llvm.smin.i32(i32 %70, i32 %81)
  %84 = tail call i32 @llvm.smax.i32(i32 %68, i32 %83)
  %85 = tail call i32 @llvm.smin.i32(i32 %68, i32 %83)
  %86 = tail call i32 @llvm.smax.i32(i32 %67, i32 %85)
  %87 = tail call i32 @llvm.smin.i32(i32 %67, i32 %85)
  %88 = tail call i32 @llvm.smax.i32(i32 %66, i32 %87)
  %89 = tail call i32 @llvm.smin.i32(i32 %66, i32 %87)
  %90 = tail call i32 @llvm.smax.i32(i32 %65, i32 %89)
  %91 = tail call i32 @llvm.smin.i32(i32 %65, i32 %89)
  %92 = tail call i32 @llvm.smax.i32(i32 %64, i32 %91)
  %93 = tail call i32 @llvm.smin.i32(i32 %64, i32 %91)
  %94 = tail call i32 @llvm.smax.i32(i32 %63, i32 %93)
  %95 = tail call i32 @llvm.smin.i32(i32 %63, i32 %93)
  %96 = tail call i32 @llvm.smax.i32(i32 %71, i32 %95)
  %97 = add i32 %69, -1
  %98 = and i32 %97, %69
  %99 = icmp eq i32 %98, 0
  br i1 %99, label %14, label %62

100:
  %101 = phi i32 [ %26, %25 ], [ %176, %144 ]
  %102 = phi i32 [ %27, %25 ], [ %174, %144 ]
  %103 = phi i32 [ %28, %25 ], [ %172, %144 ]
  %104 = phi i32 [ %29, %25 ], [ %170, %144 ]
  %105 = phi i32 [ %30, %25 ], [ %168, %144 ]
  %106 = phi i32 [ %31, %25 ], [ %166, %144 ]
  %107 = phi i32 [ %32, %25 ], [ %164, %144 ]
  %108 = phi i32 [ %33, %25 ], [ %162, %144 ]
  %109 = icmp slt i32 %108, 0
  %110 = select i1 %109, i32 2147483647, i32 0
  %111 = xor i32 %110, %108
  store i32 %111, ptr %11, align 4
  %112 = icmp slt i32 %107, 0
  %113 = select i1 %112, i32 2147483647, i32 0
  %114 = xor i32 %113, %107
  %115 = getelementptr inbounds i8, ptr %11, i64 4
  store i32 %114, ptr %115, align 4
  %116 = icmp slt i32 %106, 0
  %117 = select i1 %116, i32 2147483647, i32 0
  %118 = xor i32 %117, %106
  %119 = getelementptr inbounds i8, ptr %11, i64 8
  store i32 %118, ptr %119, align 4
  %120 = icmp slt i32 %105, 0
  %121 = select i1 %120, i32 2147483647, i32 0
  %122 = xor i32 %121, %105
  %123 = getelementptr inbounds i8, ptr %11, i64 12
  store i32 %122, ptr %123, align 4
  %124 = icmp slt i32 %104, 0
  %125 = select i1 %124, i32 2147483647, i32 0
  %126 = xor i32 %125, %104
  %127 = getelementptr inbounds i8, ptr %11, i64 16
  store i32 %126, ptr %127, align 4
  %128 = icmp slt i32 %103, 0
  %129 = select i1 %128, i32 2147483647, i32 0
  %130 = xor i32 %129, %103
  %131 = getelementptr inbounds i8, ptr %11, i64 20
  store i32 %130, ptr %131, align 4
  %132 = icmp slt i32 %102, 0
  %133 = select i1 %132, i32 2147483647, i32 0
  %134 = xor i32 %133, %102
  %135 = getelementptr inbounds i8, ptr %11, i64 24
  store i32 %134, ptr %135, align 4
  %136 = icmp slt i32 %101, 0
  %137 = select i1 %136, i32 2147483647, i32 0
  %138 = xor i32 %137, %101
  %139 = getelementptr inbounds i8, ptr %11, i64 28
  store i32 %138, ptr %139, align 4
  %140 = add i64 %12, -1
  %141 = getelementptr inbounds i32, ptr %11, i64 %1
  %142 = getelementptr inbounds float, ptr %13, i64 %3
  %143 = icmp sgt i64 %12, 1
  br i1 %143, label %10, label %179

144:
  %145 = phi i32 [ %176, %144 ], [ %26, %25 ]
  %146 = phi i32 [ %174, %144 ], [ %27, %25 ]
  %147 = phi i32 [ %172, %144 ], [ %28, %25 ]
  %148 = phi i32 [ %170, %144 ], [ %29, %25 ]
  %149 = phi i32 [ %168, %144 ], [ %30, %25 ]
  %150 = phi i32 [ %166, %144 ], [ %31, %25 ]
  %151 = phi i32 [ %164, %144 ], [ %32, %25 ]
  %152 = phi i64 [ %177, %144 ], [ %34, %25 ]
  %153 = phi i32 [ %162, %144 ], [ %33, %25 ]
  %154 = getelementptr inbounds float, ptr %13, i64 %152
  %155 = load float, ptr %154, align 4
  %156 = fcmp uno float %155, 0.000000e+00
  %157 = bitcast float %155 to i32
  %158 = icmp slt i32 %157, 0
  %159 = select i1 %158, i32 2147483647, i32 0
  %160 = xor i32 %159, %157
  %161 = select i1 %156, i32 2143289344, i32 %160
  %162 = tail call i32 @llvm.smax.i32(i32 %153, i32 %161)
  %163 = tail call i32 @llvm.smin.i32(i32 %153, i32 %161)
  %164 = tail call i32 @llvm.smax.i32(i32 %151, i32 %163)
  %165 = tail call i32 @llvm.smin.i32(i32 %151, i32 %163)
  %166 = tail call i32 @llvm.smax.i32(i32 %150, i32 %165)
  %167 = tail call i32 @llvm.smin.i32(i32 %150, i32 %165)
  %168 = tail call i32 @llvm.smax.i32(i32 %149, i32 %167)
  %169 = tail call i32 @llvm.smin.i32(i32 %149, i32 %167)
  %170 = tail call i32 @llvm.smax.i32(i32 %148, i32 %169)
  %171 = tail call i32 @llvm.smin.i32(i32 %148, i32 %169)
  %172 = tail call i32 @llvm.smax.i32(i32 %147, i32 %171)
  %173 = tail call i32 @llvm.smin.i32(i32 %147, i32 %171)
  %174 = tail call i32 @llvm.smax.i32(i32 %146, i32 %173)
  %175 = tail call i32 @llvm.smin.i32(i32 %146, i32 %173)
  %176 = tail call i32 @llvm.smax.i32(i32 %145, i32 %175)
  %177 = add i64 %152, 1
  %178 = icmp eq i64 %177, %5
  br i1 %178, label %100, label %144

179:
  ret void
}

declare i32 @llvm.cttz.i32(i32, i1)

define void @nki_find(ptr %0, i64 %1, ptr %2, i64 %3, ptr %4, i64 %5, i64 %6, i64 %7, i64 %8) {
  %10 = icmp sgt i64 %6, 0
  br i1 %10, label %11, label %81

11:
  %12 = icmp eq i64 %8, 0
  %13 = select i1 %12, i64 0, i64 7
  br label %14

14:
  %15 = phi ptr [ %0, %11 ], [ %21, %19 ]
  %16 = phi ptr [ %2, %11 ], [ %22, %19 ]
  %17 = phi ptr [ %4, %11 ], [ %23, %19 ]
  %18 = phi i64 [ %6, %11 ], [ %20, %19 ]
  br label %25

19:
  %20 = add i64 %18, -1
  %21 = getelementptr inbounds i32, ptr %15, i64 %1
  %22 = getelementptr inbounds float, ptr %16, i64 %3
  %23 = getelementptr inbounds float, ptr %17, i64 %5
  %24 = icmp sgt i64 %18, 1
  br i1 %24, label %14, label %81

25:
  %26 = phi i64 [ 0, %14 ], [ %63, %59 ]
  %27 = xor i64 %26, %13
  %28 = getelementptr inbounds float, ptr %17, i64 %27
  %29 = load float, ptr %28, align 4
  %30 = icmp eq i64 %26, 0
  br i1 %30, label %31, label %65

31:
  %32 = phi i64 [ 0, %25 ], [ %78, %77 ]
  %33 = insertelement <16 x float> poison, float %29, i64 0
  %34 = shufflevector <16 x float> %33, <16 x float> poison, <16 x i32> zeroinitializer
  br label %35

35:
  %36 = phi i64 [ %32, %31 ], [ %37, %41 ]
  %37 = add i64 %36, 16
  %38 = icmp sgt i64 %37, %7
  br i1 %38, label %39, label %41

39:
  %40 = icmp slt i64 %36, %7
  br i1 %40, label %47, label %59

41:
  %42 = getelementptr inbounds float, ptr %16, i64 %36
  %43 = load <16 x float>, ptr %42, align 4
  %44 = fcmp oeq <16 x float> %43, %34
  %45 = bitcast <16 x i1> %44 to i16
  %46 = icmp eq i16 %45, 0
  br i1 %46, label %35, label %55

47:
  %48 = phi i64 [ %53, %52 ], [ %36, %39 ]
  %49 = getelementptr inbounds float, ptr %16, i64 %48
  %50 = load float, ptr %49, align 4
  %51 = fcmp oeq float %50, %29
  br i1 %51, label %59, label %52

52:
  %53 = add i64 %48, 1
  %54 = icmp slt i64 %53, %7
  br i1 %54, label %47, label %59

55:
  %56 = tail call i16 @llvm.cttz.i16(i16 %45, i1 true)
  %57 = zext i16 %56 to i64
  %58 = add i64 %36, %57
  br label %59

59:
  %60 = phi i64 [ %58, %55 ], [ -1, %39 ], [ -1, %52 ], [ %48, %47 ]
  %61 = trunc i64 %60 to i32
  %62 = getelementptr inbounds i32, ptr %15, i64 %27
  store i32 %61, ptr %62, align 4
  %63 = add i64 %26, 1
  %64 = icmp eq i64 %63, 8
  br i1 %64, label %19, label %25

65:
  %66 = phi i64 [ %79, %77 ], [ 0, %25 ]
  %67 = phi i64 [ %78, %77 ], [ 0, %25 ]
  %68 = xor i64 %66, %13
  %69 = getelementptr inbounds float, ptr %17, i64 %68
  %70 = load float, ptr %69, align 4
  %71 = fcmp oeq float %70, %29
  br i1 %71, label %72, label %77

72:
  %73 = getelementptr inbounds i32, ptr %15, i64 %68
  %74 = load i32, ptr %73, align 4
  %75 = zext i32 %74 to i64
  %76 = add i64 %75, 1
  br label %77

77:
  %78 = phi i64 [ %76, %72 ], [ %67, %65 ]
  %79 = add i64 %66, 1
  %80 = icmp eq i64 %79, %26
  br i1 %80, label %31, label %65

81:
  ret void
}

define void @nki_put(ptr %0, i64 %1, ptr %2, i64 %3, ptr %4, i64 %5, i64 %6, i64 %7, i64 %8, i64 %9, i64 %10) {
  %12 = icmp sgt i64 %6, 0
  br i1 %12, label %13, label %44

13:
  %14 = icmp sgt i64 %8, 0
  %15 = mul i64 %10, %9
  %16 = mul i64 %10, %1
  br label %17

17:
  %18 = phi ptr [ %0, %13 ], [ %23, %21 ]
  %19 = phi ptr [ %2, %13 ], [ %24, %21 ]
  %20 = phi i64 [ %6, %13 ], [ %22, %21 ]
  br i1 %14, label %26, label %21

21:
  %22 = add i64 %20, -1
  %23 = getelementptr inbounds i8, ptr %18, i64 %16
  %24 = getelementptr inbounds i32, ptr %19, i64 %3
  %25 = icmp sgt i64 %20, 1
  br i1 %25, label %17, label %44

26:
  %27 = phi i64 [ %42, %41 ], [ 0, %17 ]
  %28 = getelementptr inbounds i32, ptr %19, i64 %27
  %29 = load i32, ptr %28, align 4
  %30 = zext i32 %29 to i64
  %31 = mul i64 %15, %30
  %32 = getelementptr inbounds i8, ptr %18, i64 %31
  %33 = icmp sgt i64 %7, %30
  br i1 %33, label %34, label %41

34:
  switch i64 %10, label %39 [
    i64 4, label %35
    i64 2, label %37
  ]

35:
  %36 = load i32, ptr %4, align 4
  store i32 %36, ptr %32, align 4
  br label %41

37:
  %38 = load i16, ptr %4, align 2
  store i16 %38, ptr %32, align 2
  br label %41

39:
  %40 = load i8, ptr %4, align 1
  store i8 %40, ptr %32, align 1
  br label %41

41:
  %42 = add i64 %27, 1
  %43 = icmp eq i64 %42, %8
  br i1 %43, label %21, label %26

44:
  ret void
}

define void @nki_nonzero(ptr %0, i64 %1, ptr %2, i64 %3, i64 %4, i64 %5) {
  %7 = icmp sgt i64 %4, 0
  br i1 %7, label %8, label %152

8:
  %9 = icmp sgt i64 %5, 0
  %10 = and i64 %5, 7
  %11 = icmp ult i64 %5, 8
  %12 = and i64 %5, 9223372036854775800
  %13 = icmp eq i64 %10, 0
  %14 = icmp ne i64 %10, 0
  br label %15

15:
  %16 = phi ptr [ %0, %8 ], [ %130, %126 ]
  %17 = phi i64 [ %4, %8 ], [ %129, %126 ]
  %18 = phi ptr [ %2, %8 ], [ %131, %126 ]
  br i1 %9, label %19, label %38

19:
  br i1 %11, label %21, label %56

20:
  br i1 %13, label %38, label %21

21:
  %22 = phi i64 [ 0, %19 ], [ %123, %20 ]
  %23 = phi i64 [ 0, %19 ], [ %122, %20 ]
  tail call void @llvm.assume(i1 %14)
  br label %24

24:
  %25 = phi i64 [ %35, %24 ], [ %22, %21 ]
  %26 = phi i64 [ %34, %24 ], [ %23, %21 ]
  %27 = phi i64 [ %36, %24 ], [ 0, %21 ]
  %28 = trunc i64 %25 to i32
  %29 = getelementptr inbounds i32, ptr %16, i64 %26
  store i32 %28, ptr %29, align 4
  %30 = getelementptr inbounds float, ptr %18, i64 %25
  %31 = load float, ptr %30, align 4
  %32 = fcmp une float %31, 0.000000e+00
  %33 = zext i1 %32 to i64
  %34 = add i64 %26, %33
  %35 = add i64 %25, 1
  %36 = add i64 %27, 1
  %37 = icmp eq i64 %36, %10
  br i1 %37, label %38, label %24

38:
  %39 = phi i64 [ 0, %15 ], [ %122, %20 ], [ %34, %24 ]
  %40 = icmp slt i64 %39, %5
  br i1 %40, label %41, label %126

41:
  %42 = sub i64 %5, %39
  %43 = and i64 %42, 7
  %44 = icmp eq i64 %43, 0
  br i1 %44, label %52, label %45

45:
  %46 = phi i64 [ %49, %45 ], [ %39, %41 ]
  %47 = phi i64 [ %50, %45 ], [ 0, %41 ]
  %48 = getelementptr inbounds i32, ptr %16, i64 %46
  store i32 -1, ptr %48, align 4
  %49 = add i64 %46, 1
  %50 = add i64 %47, 1
  %51 = icmp eq i64 %50, %43
  br i1 %51, label %52, label %45

52:
  %53 = phi i64 [ %39, %41 ], [ %49, %45 ]
  %54 = sub i64 %39, %5
  %55 = icmp ugt i64 %54, -8
  br i1 %55, label %126, label %133

56:
  %57 = phi i64 [ %123, %56 ], [ 0, %19 ]
  %58 = phi i64 [ %122, %56 ], [ 0, %19 ]
  %59 = phi i64 [ %124, %56 ], [ 0, %19 ]
  %60 = trunc i64 %57 to i32
  %61 = getelementptr inbounds i32, ptr %16, i64 %58
  store i32 %60, ptr %61, align 4
  %62 = getelementptr inbounds float, ptr %18, i64 %57
  %63 = load float, ptr %62, align 4
  %64 = fcmp une float %63, 0.000000e+00
  %65 = zext i1 %64 to i64
  %66 = add i64 %58, %65
  %67 = or i64 %57, 1
  %68 = trunc i64 %67 to i32
  %69 = getelementptr inbounds i32, ptr %16, i64 %66
  store i32 %68, ptr %69, align 4
  %70 = getelementptr inbounds float, ptr %18, i64 %67
  %71 = load float, ptr %70, align 4
  %72 = fcmp une float %71, 0.000000e+00
  %73 = zext i1 %72 to i64
  %74 = add i64 %66, %73
  %75 = or i64 %57, 2
  %76 = trunc i64 %75 to i32
  %77 = getelementptr inbounds i32, ptr %16, i64 %74
  store i32 %76, ptr %77, align 4
  %78 = getelementptr inbounds float, ptr %18, i64 %75
  %79 = load float, ptr %78, align 4
  %80 = fcmp une float %79, 0.000000e+00
  %81 = zext i1 %80 to i64
  %82 = add i64 %74, %81
  %83 = or i64 %57, 3
  %84 = trunc i64 %83 to i32
  %85 = getelementptr inbounds i32, ptr %16, i64 %82
  store i32 %84, ptr %85, align 4
  %86 = getelementptr inbounds float, ptr %18, i64 %83
  %87 = load float, ptr %86, align 4
  %88 = fcmp une float %87, 0.000000e+00
  %89 = zext i1 %88 to i64
  %90 = add i64 %82, %89
  %91 = or i64 %57, 4
  %92 = trunc i64 %91 to i32
  %93 = getelementptr inbounds i32, ptr %16, i64 %90
  store i32 %92, ptr %93, align 4
  %94 = getelementptr inbounds float, ptr %18, i64 %91
  %95 = load float, ptr %94, align 4
  %96 = fcmp une float %95, 0.000000e+00
  %97 = zext i1 %96 to i64
  %98 = add i64 %90, %97
  %99 = or i64 %57, 5
  %100 = trunc i64 %99 to i32
  %101 = getelementptr inbounds i32, ptr %16, i64 %98
  store i32 %100, ptr %101, align 4
  %102 = getelementptr inbounds float, ptr %18, i64 %99
  %103 = load float, ptr %102, align 4
  %104 = fcmp une float %103, 0.000000e+00
  %105 = zext i1 %104 to i64
  %106 = add i64 %98, %105
  %107 = or i64 %57, 6
  %108 = trunc i64 %107 to i32
  %109 = getelementptr inbounds i32, ptr %16, i64 %106
  store i32 %108, ptr %109, align 4
  %110 = getelementptr inbounds float, ptr %18, i64 %107
  %111 = load float, ptr %110, align 4
  %112 = fcmp une float %111, 0.000000e+00
  %113 = zext i1 %112 to i64
  %114 = add i64 %106, %113
  %115 = or i64 %57, 7
  %116 = trunc i64 %115 to i32
  %117 = getelementptr inbounds i32, ptr %16, i64 %114
  store i32 %116, ptr %117, align 4
  %118 = getelementptr inbounds float, ptr %18, i64 %115
  %119 = load float, ptr %118, align 4
  %120 = fcmp une float %119, 0.000000e+00
  %121 = zext i1 %120 to i64
  %122 = add i64 %114, %121
  %123 = add i64 %57, 8
  %124 = add i64 %59, 8
  %125 = icmp eq i64 %124, %12
  br i1 %125, label %20, label %56

126:
  %127 = trunc i64 %39 to i32
  %128 = getelementptr inbounds i32, ptr %16, i64 %5
  store i32 %127, ptr %128, align 4
  %129 = add i64 %17, -1
  %130 = getelementptr inbounds i32, ptr %16, i64 %1
  %131 = getelementptr inbounds float, ptr %18, i64 %3
  %132 = icmp sgt i64 %17, 1
  br i1 %132, label %15, label %152

133:
  %134 = phi i64 [ %150, %133 ], [ %53, %52 ]
  %135 = getelementptr inbounds i32, ptr %16, i64 %134
  store i32 -1, ptr %135, align 4
  %136 = getelementptr i32, ptr %16, i64 %134
  %137 = getelementptr i8, ptr %136, i64 4
  store i32 -1, ptr %137, align 4
  %138 = getelementptr i32, ptr %16, i64 %134
  %139 = getelementptr i8, ptr %138, i64 8
  store i32 -1, ptr %139, align 4
  %140 = getelementptr i32, ptr %16, i64 %134
  %141 = getelementptr i8, ptr %140, i64 12
  store i32 -1, ptr %141, align 4
  %142 = getelementptr i32, ptr %16, i64 %134
  %143 = getelementptr i8, ptr %142, i64 16
  store i32 -1, ptr %143, align 4
  %144 = getelementptr i32, ptr %16, i64 %134
  %145 = getelementptr i8, ptr %144, i64 20
  store i32 -1, ptr %145, align 4
  %146 = getelementptr i32, ptr %16, i64 %134
  %147 = getelementptr i8, ptr %146, i64 24
  store i32 -1, ptr %147, align 4
  %148 = getelementptr i32, ptr %16, i64 %134
  %149 = getelementptr i8, ptr %148, i64 28
  store i32 -1, ptr %149, align 4
  %150 = add i64 %134, 8
  %151 = icmp eq i64 %150, %5
  br i1 %151, label %126, label %133

152:
  ret void
}

define void @nki_ranked(ptr %0, i64 %1, ptr %2, i64 %3, i64 %4, i64 %5, i64 %6, i64 %7, ptr %8) {
  %10 = alloca [256 x i32], align 16
  %11 = icmp sgt i64 %4, 0
  br i1 %11, label %12, label %222

12:
  %13 = getelementptr inbounds i64, ptr %8, i64 %5
  %14 = icmp sgt i64 %5, 0
  %15 = icmp eq i64 %7, 2
  %16 = sub i64 4, %7
  %17 = icmp slt i64 %16, 4
  %18 = icmp sgt i64 %6, 0
  %19 = sub i64 %5, %6
  %20 = mul i64 %7, %3
  %21 = and i64 %5, 3
  %22 = icmp ult i64 %5, 4
  %23 = and i64 %5, 9223372036854775804
  %24 = icmp eq i64 %21, 0
  %25 = icmp ne i64 %21, 0
  %26 = and i64 %5, 3
  %27 = icmp ult i64 %5, 4
  %28 = and i64 %5, 9223372036854775804
  %29 = icmp eq i64 %26, 0
  %30 = icmp ne i64 %26, 0
  br label %31

31:
  %32 = phi ptr [ %0, %12 ], [ %211, %209 ]
  %33 = phi ptr [ %2, %12 ], [ %212, %209 ]
  %34 = phi i64 [ %4, %12 ], [ %210, %209 ]
  br i1 %14, label %36, label %35

35:
  br i1 %17, label %66, label %62

36:
  %37 = phi i64 [ %60, %48 ], [ 0, %31 ]
  %38 = xor i64 %37, -1
  %39 = add i64 %5, %38
  br i1 %15, label %40, label %45

40:
  %41 = getelementptr inbounds i16, ptr %33, i64 %39
  %42 = load i16, ptr %41, align 2
  %43 = zext i16 %42 to i32
  %44 = shl i32 %43, 16
  br label %48

45:
  %46 = getelementptr inbounds i32, ptr %33, i64 %39
  %47 = load i32, ptr %46, align 4
  br label %48

48:
  %49 = phi i32 [ %44, %40 ], [ %47, %45 ]
  %50 = bitcast i32 %49 to float
  %51 = fcmp uno float %50, 0.000000e+00
  %52 = ashr i32 %49, 31
  %53 = or i32 %52, -2147483648
  %54 = xor i32 %53, %49
  %55 = zext i32 %54 to i64
  %56 = shl i64 %55, 32
  %57 = select i1 %51, i64 -4294967296, i64 %56
  %58 = or i64 %57, %39
  %59 = getelementptr inbounds i64, ptr %8, i64 %37
  store i64 %58, ptr %59, align 8
  %60 = add i64 %37, 1
  %61 = icmp eq i64 %60, %5
  br i1 %61, label %35, label %36

62:
  %63 = phi ptr [ %8, %35 ], [ %68, %206 ]
  br i1 %18, label %64, label %209

64:
  %65 = getelementptr i64, ptr %63, i64 %19
  br label %214

66:
  %67 = phi i64 [ %207, %206 ], [ %16, %35 ]
  %68 = phi ptr [ %69, %206 ], [ %13, %35 ]
  %69 = phi ptr [ %68, %206 ], [ %8, %35 ]
  br label %91

70:
  %71 = shl i64 %67, 3
  %72 = add i64 %71, 32
  br i1 %14, label %73, label %90

73:
  br i1 %22, label %75, label %96

74:
  br i1 %24, label %90, label %75

75:
  %76 = phi i64 [ 0, %73 ], [ %130, %74 ]
  tail call void @llvm.assume(i1 %25)
  br label %77

77:
  %78 = phi i64 [ %87, %77 ], [ %76, %75 ]
  %79 = phi i64 [ %88, %77 ], [ 0, %75 ]
  %80 = getelementptr inbounds i64, ptr %69, i64 %78
  %81 = load i64, ptr %80, align 8
  %82 = lshr i64 %81, %72
  %83 = and i64 %82, 255
  %84 = getelementptr inbounds i32, ptr %10, i64 %83
  %85 = load i32, ptr %84, align 4
  %86 = add i32 %85, 1
  store i32 %86, ptr %84, align 4
  %87 = add i64 %78, 1
  %88 = add i64 %79, 1
  %89 = icmp eq i64 %88, %21
  br i1 %89, label %90, label %77

90:
  br label %135

91:
  %92 = phi i64 [ 0, %66 ], [ %94, %91 ]
  %93 = getelementptr inbounds i32, ptr %10, i64 %92
  store i32 0, ptr %93, align 4
  %94 = add i64 %92, 1
  %95 = icmp eq i64 %94, 256
  br i1 %95, label %70, label %91

96:
  %97 = phi i64 [ %130, %96 ], [ 0, %73 ]
  %98 = phi i64 [ %131, %96 ], [ 0, %73 ]
  %99 = getelementptr inbounds i64, ptr %69, i64 %97
  %100 = load i64, ptr %99, align 8
  %101 = lshr i64 %100, %72
  %102 = and i64 %101, 255
  %103 = getelementptr inbounds i32, ptr %10, i64 %102
  %104 = load i32, ptr %103, align 4
  %105 = add i32 %104, 1
  store i32 %105, ptr %103, align 4
  %106 = getelementptr inbounds i64, ptr %69, i64 %97
  %107 = getelementptr inbounds i8, ptr %106, i64 8
  %108 = load i64, ptr %107, align 8
  %109 = lshr i64 %108, %72
  %110 = and i64 %109, 255
  %111 = getelementptr inbounds i32, ptr %10, i64 %110
  %112 = load i32, ptr %111, align 4
  %113 = add i32 %112, 1
  store i32 %113, ptr %111, align 4
  %114 = getelementptr inbounds i64, ptr %69, i64 %97
  %115 = getelementptr inbounds i8, ptr %114, i64 16
  %116 = load i64, ptr %115, align 8
  %117 = lshr i64 %116, %72
  %118 = and i64 %117, 255
  %119 = getelementptr inbounds i32, ptr %10, i64 %118
  %120 = load i32, ptr %119, align 4
  %121 = add i32 %120, 1
  store i32 %121, ptr %119, align 4
  %122 = getelementptr inbounds i64, ptr %69, i64 %97
  %123 = getelementptr inbounds i8, ptr %122, i64 24
  %124 = load i64, ptr %123, align 8
  %125 = lshr i64 %124, %72
  %126 = and i64 %125, 255
  %127 = getelementptr inbounds i32, ptr %10, i64 %126
  %128 = load i32, ptr %127, align 4
  %129 = add i32 %128, 1
  store i32 %129, ptr %127, align 4
  %130 = add i64 %97, 4
  %131 = add i64 %98, 4
  %132 = icmp eq i64 %131, %23
  br i1 %132, label %74, label %96

133:
  br i1 %14, label %134, label %206

134:
  br i1 %27, label %189, label %143

135:
  %136 = phi i64 [ %141, %135 ], [ 0, %90 ]
  %137 = phi i32 [ %140, %135 ], [ 0, %90 ]
  %138 = getelementptr inbounds i32, ptr %10, i64 %136
  %139 = load i32, ptr %138, align 4
  store i32 %137, ptr %138, align 4
  %140 = add i32 %139, %137
  %141 = add i64 %136, 1
  %142 = icmp eq i64 %141, 256
  br i1 %142, label %133, label %135

143:
  %144 = phi i64 [ %185, %143 ], [ 0, %134 ]
  %145 = phi i64 [ %186, %143 ], [ 0, %134 ]
  %146 = getelementptr inbounds i64, ptr %69, i64 %144
  %147 = load i64, ptr %146, align 8
  %148 = lshr i64 %147, %72
  %149 = and i64 %148, 255
  %150 = getelementptr inbounds i32, ptr %10, i64 %149
  %151 = load i32, ptr %150, align 4
  %152 = add i32 %151, 1
  store i32 %152, ptr %150, align 4
  %153 = zext i32 %151 to i64
  %154 = getelementptr inbounds i64, ptr %68, i64 %153
  store i64 %147, ptr %154, align 8
  %155 = getelementptr inbounds i64, ptr %69, i64 %144
  %156 = getelementptr inbounds i8, ptr %155, i64 8
  %157 = load i64, ptr %156, align 8
  %158 = lshr i64 %157, %72
  %159 = and i64 %158, 255
  %160 = getelementptr inbounds i32, ptr %10, i64 %159
  %161 = load i32, ptr %160, align 4
  %162 = add i32 %161, 1
  store i32 %162, ptr %160, align 4
  %163 = zext i32 %161 to i64
  %164 = getelementptr inbounds i64, ptr %68, i64 %163
  store i64 %157, ptr %164, align 8
  %165 = getelementptr inbounds i64, ptr %69, i64 %144
  %166 = getelementptr inbounds i8, ptr %165, i64 16
  %167 = load i64, ptr %166, align 8
  %168 = lshr i64 %167, %72
  %169 = and i64 %168, 255
  %170 = getelementptr inbounds i32, ptr %10, i64 %169
  %171 = load i32, ptr %170, align 4
  %172 = add i32 %171, 1
  store i32 %172, ptr %170, align 4
  %173 = zext i32 %171 to i64
  %174 = getelementptr inbounds i64, ptr %68, i64 %173
  store i64 %167, ptr %174, align 8
  %175 = getelementptr inbounds i64, ptr %69, i64 %144
  %176 = getelementptr inbounds i8, ptr %175, i64 24
  %177 = load i64, ptr %176, align 8
  %178 = lshr i64 %177, %72
  %179 = and i64 %178, 255
  %180 = getelementptr inbounds i32, ptr %10, i64 %179
  %181 = load i32, ptr %180, align 4
  %182 = add i32 %181, 1
  store i32 %182, ptr %180, align 4
  %183 = zext i32 %181 to i64
  %184 = getelementptr inbounds i64, ptr %68, i64 %183
  store i64 %177, ptr %184, align 8
  %185 = add i64 %144, 4
  %186 = add i64 %145, 4
  %187 = icmp eq i64 %186, %28
  br i1 %187, label %188, label %143

188:
  br i1 %29, label %206, label %189

189:
  %190 = phi i64 [ 0, %134 ], [ %185, %188 ]
  tail call void @llvm.assume(i1 %30)
  br label %191

191:
  %192 = phi i64 [ %203, %191 ], [ %190, %189 ]
  %193 = phi i64 [ %204, %191 ], [ 0, %189 ]
  %194 = getelementptr inbounds i64, ptr %69, i64 %192
  %195 = load i64, ptr %194, align 8
  %196 = lshr i64 %195, %72
  %197 = and i64 %196, 255
  %198 = getelementptr inbounds i32, ptr %10, i64 %197
  %199 = load i32, ptr %198, align 4
  %200 = add i32 %199, 1
  store i32 %200, ptr %198, align 4
  %201 = zext i32 %199 to i64
  %202 = getelementptr inbounds i64, ptr %68, i64 %201
  store i64 %195, ptr %202, align 8
  %203 = add i64 %192, 1
  %204 = add i64 %193, 1
  %205 = icmp eq i64 %204, %26
  br i1 %205, label %206, label %191

206:
  %207 = add i64 %67, 1
  %208 = icmp eq i64 %207, 4
  br i1 %208, label %62, label %66

209:
  %210 = add i64 %34, -1
  %211 = getelementptr inbounds i32, ptr %32, i64 %1
  %212 = getelementptr inbounds i8, ptr %33, i64 %20
  %213 = icmp sgt i64 %34, 1
  br i1 %213, label %31, label %222

214:
  %215 = phi i64 [ 0, %64 ], [ %220, %214 ]
  %216 = getelementptr i64, ptr %65, i64 %215
  %217 = load i64, ptr %216, align 8
  %218 = trunc i64 %217 to i32
  %219 = getelementptr inbounds i32, ptr %32, i64 %215
  store i32 %218, ptr %219, align 4
  %220 = add i64 %215, 1
  %221 = icmp eq i64 %220, %6
  br i1 %221, label %209, label %214

222:
  ret void
}

define void @nki_xorwow(ptr %0, i64 %1, ptr %2, i64 %3, ptr %4, i64 %5, i64 %6, i64 %7, i64 %8) {
  %10 = alloca %union.anon.3, align 4
  %11 = alloca %union.anon.2, align 16
  %12 = icmp sgt i64 %6, 0
  br i1 %12, label %13, label %321

13:
  %14 = icmp eq i64 %8, 4
  %15 = getelementptr inbounds i8, ptr %10, i64 4
  %16 = getelementptr inbounds i8, ptr %10, i64 8
  %17 = getelementptr inbounds i8, ptr %10, i64 12
  %18 = getelementptr inbounds i8, ptr %10, i64 16
  %19 = getelementptr inbounds i8, ptr %10, i64 20
  %20 = icmp sgt i64 %7, 0
  %21 = sdiv i64 %7, 4
  %22 = getelementptr inbounds i8, ptr %11, i64 16
  %23 = getelementptr inbounds i8, ptr %11, i64 32
  %24 = getelementptr inbounds i8, ptr %11, i64 48
  %25 = getelementptr inbounds i8, ptr %11, i64 64
  %26 = getelementptr inbounds i8, ptr %11, i64 80
  %27 = icmp sgt i64 %7, 3
  %28 = add i64 %7, -1
  %29 = add i64 %21, -1
  %30 = urem i64 %28, 5
  %31 = add i64 %30, 1
  %32 = icmp ne i64 %31, 5
  %33 = select i1 %32, i64 %31, i64 0
  %34 = icmp ult i64 %7, 5
  %35 = sub i64 %7, %33
  %36 = urem i64 %29, 5
  %37 = add i64 %36, 1
  %38 = icmp ne i64 %37, 5
  %39 = select i1 %38, i64 %37, i64 0
  %40 = icmp ult i64 %29, 4
  %41 = sub i64 %21, %39
  br label %42

42:
  %43 = phi ptr [ %0, %13 ], [ %317, %315 ]
  %44 = phi ptr [ %2, %13 ], [ %319, %315 ]
  %45 = phi i64 [ %6, %13 ], [ %316, %315 ]
  %46 = phi ptr [ %4, %13 ], [ %318, %315 ]
  br i1 %14, label %47, label %187

47:
  br label %56

48:
  %49 = load <4 x i32>, ptr %11, align 16
  %50 = load <4 x i32>, ptr %22, align 16
  %51 = load <4 x i32>, ptr %23, align 16
  %52 = load <4 x i32>, ptr %24, align 16
  %53 = load <4 x i32>, ptr %25, align 16
  %54 = load <4 x i32>, ptr %26, align 16
  br i1 %27, label %55, label %100

55:
  br i1 %40, label %70, label %107

56:
  %57 = phi i64 [ 0, %47 ], [ %67, %56 ]
  %58 = getelementptr inbounds i32, ptr %46, i64 %57
  %59 = load i32, ptr %58, align 4
  %60 = trunc i64 %57 to i8
  %61 = urem i8 %60, 6
  %62 = zext i8 %61 to i64
  %63 = getelementptr inbounds [4 x i32], ptr %11, i64 %62
  %64 = udiv i8 %60, 6
  %65 = zext i8 %64 to i64
  %66 = getelementptr inbounds i32, ptr %63, i64 %65
  store i32 %59, ptr %66, align 4
  %67 = add i64 %57, 1
  %68 = icmp eq i64 %67, 24
  br i1 %68, label %48, label %56

69:
  br i1 %38, label %70, label %100

70:
  %71 = phi i64 [ 0, %55 ], [ %170, %69 ]
  %72 = phi <4 x i32> [ %54, %55 ], [ %166, %69 ]
  %73 = phi <4 x i32> [ %53, %55 ], [ %165, %69 ]
  %74 = phi <4 x i32> [ %52, %55 ], [ %154, %69 ]
  %75 = phi <4 x i32> [ %51, %55 ], [ %143, %69 ]
  %76 = phi <4 x i32> [ %50, %55 ], [ %132, %69 ]
  %77 = phi <4 x i32> [ %49, %55 ], [ %122, %69 ]
  tail call void @llvm.assume(i1 %38)
  br label %78

78:
  %79 = phi i64 [ %97, %78 ], [ %71, %70 ]
  %80 = phi <4 x i32> [ %94, %78 ], [ %72, %70 ]
  %81 = phi <4 x i32> [ %93, %78 ], [ %73, %70 ]
  %82 = phi <4 x i32> [ %81, %78 ], [ %74, %70 ]
  %83 = phi <4 x i32> [ %82, %78 ], [ %75, %70 ]
  %84 = phi <4 x i32> [ %83, %78 ], [ %76, %70 ]
  %85 = phi <4 x i32> [ %84, %78 ], [ %77, %70 ]
  %86 = phi i64 [ %98, %78 ], [ 0, %70 ]
  %87 = lshr <4 x i32> %85, splat (i32 2)
  %88 = xor <4 x i32> %87, %85
  %89 = shl <4 x i32> %88, splat (i32 1)
  %90 = shl <4 x i32> %81, splat (i32 4)
  %91 = xor <4 x i32> %90, %89
  %92 = xor <4 x i32> %91, %81
  %93 = xor <4 x i32> %92, %88
  %94 = add <4 x i32> %80, splat (i32 362437)
  %95 = add <4 x i32> %93, %94
  %96 = getelementptr inbounds <4 x i32>, ptr %43, i64 %79
  store <4 x i32> %95, ptr %96, align 4
  %97 = add i64 %79, 1
  %98 = add i64 %86, 1
  %99 = icmp eq i64 %98, %39
  br i1 %99, label %100, label %78

100:
  %101 = phi <4 x i32> [ %49, %48 ], [ %122, %69 ], [ %84, %78 ]
  %102 = phi <4 x i32> [ %50, %48 ], [ %132, %69 ], [ %83, %78 ]
  %103 = phi <4 x i32> [ %51, %48 ], [ %143, %69 ], [ %82, %78 ]
  %104 = phi <4 x i32> [ %52, %48 ], [ %154, %69 ], [ %81, %78 ]
  %105 = phi <4 x i32> [ %53, %48 ], [ %165, %69 ], [ %93, %78 ]
  %106 = phi <4 x i32> [ %54, %48 ], [ %166, %69 ], [ %94, %78 ]
  store <4 x i32> %101, ptr %11, align 16
  store <4 x i32> %102, ptr %22, align 16
  store <4 x i32> %103, ptr %23, align 16
  store <4 x i32> %104, ptr %24, align 16
  store <4 x i32> %105, ptr %25, align 16
  store <4 x i32> %106, ptr %26, align 16
  br label %173

107:
  %108 = phi i64 [ %170, %107 ], [ 0, %55 ]
  %109 = phi <4 x i32> [ %166, %107 ], [ %54, %55 ]
  %110 = phi <4 x i32> [ %165, %107 ], [ %53, %55 ]
  %111 = phi <4 x i32> [ %154, %107 ], [ %52, %55 ]
  %112 = phi <4 x i32> [ %143, %107 ], [ %51, %55 ]
  %113 = phi <4 x i32> [ %132, %107 ], [ %50, %55 ]
  %114 = phi <4 x i32> [ %122, %107 ], [ %49, %55 ]
  %115 = phi i64 [ %171, %107 ], [ 0, %55 ]
  %116 = lshr <4 x i32> %114, splat (i32 2)
  %117 = xor <4 x i32> %116, %114
  %118 = shl <4 x i32> %117, splat (i32 1)
  %119 = shl <4 x i32> %110, splat (i32 4)
  %120 = xor <4 x i32> %119, %118
  %121 = xor <4 x i32> %120, %110
  %122 = xor <4 x i32> %121, %117
  %123 = add <4 x i32> %109, splat (i32 362437)
  %124 = add <4 x i32> %122, %123
  %125 = getelementptr inbounds <4 x i32>, ptr %43, i64 %108
  store <4 x i32> %124, ptr %125, align 4
  %126 = lshr <4 x i32> %113, splat (i32 2)
  %127 = xor <4 x i32> %126, %113
  %128 = shl <4 x i32> %127, splat (i32 1)
  %129 = shl <4 x i32> %122, splat (i32 4)
  %130 = xor <4 x i32> %129, %128
  %131 = xor <4 x i32> %130, %122
  %132 = xor <4 x i32> %131, %127
  %133 = add <4 x i32> %109, splat (i32 724874)
  %134 = add <4 x i32> %132, %133
  %135 = getelementptr inbounds <4 x i32>, ptr %43, i64 %108
  %136 = getelementptr inbounds i8, ptr %135, i64 16
  store <4 x i32> %134, ptr %136, align 4
  %137 = lshr <4 x i32> %112, splat (i32 2)
  %138 = xor <4 x i32> %137, %112
  %139 = shl <4 x i32> %138, splat (i32 1)
  %140 = shl <4 x i32> %132, splat (i32 4)
  %141 = xor <4 x i32> %140, %139
  %142 = xor <4 x i32> %141, %132
  %143 = xor <4 x i32> %142, %138
  %144 = add <4 x i32> %109, splat (i32 1087311)
  %145 = add <4 x i32> %143, %144
  %146 = getelementptr inbounds <4 x i32>, ptr %43, i64 %108
  %147 = getelementptr inbounds i8, ptr %146, i64 32
  store <4 x i32> %145, ptr %147, align 4
  %148 = lshr <4 x i32> %111, splat (i32 2)
  %149 = xor <4 x i32> %148, %111
  %150 = shl <4 x i32> %149, splat (i32 1)
  %151 = shl <4 x i32> %143, splat (i32 4)
  %152 = xor <4 x i32> %151, %150
  %153 = xor <4 x i32> %152, %143
  %154 = xor <4 x i32> %153, %149
  %155 = add <4 x i32> %109, splat (i32 1449748)
  %156 = add <4 x i32> %154, %155
  %157 = getelementptr inbounds <4 x i32>, ptr %43, i64 %108
  %158 = getelementptr inbounds i8, ptr %157, i64 48
  store <4 x i32> %156, ptr %158, align 4
  %159 = lshr <4 x i32> %110, splat (i32 2)
  %160 = xor <4 x i32> %159, %110
  %161 = shl <4 x i32> %160, splat (i32 1)
  %162 = shl <4 x i32> %154, splat (i32 4)
  %163 = xor <4 x i32> %162, %161
  %164 = xor <4 x i32> %163, %154
  %165 = xor <4 x i32> %164, %160
  %166 = add <4 x i32> %109, splat (i32 1812185)
  %167 = add <4 x i32> %165, %166
  %168 = getelementptr inbounds <4 x i32>, ptr %43, i64 %108
  %169 = getelementptr inbounds i8, ptr %168, i64 64
  store <4 x i32> %167, ptr %169, align 4
  %170 = add i64 %108, 5
  %171 = add i64 %115, 5
  %172 = icmp eq i64 %171, %41
  br i1 %172, label %69, label %107

173:
  %174 = phi i64 [ 0, %100 ], [ %184, %173 ]
  %175 = trunc i64 %174 to i8
  %176 = urem i8 %175, 6
  %177 = zext i8 %176 to i64
  %178 = getelementptr inbounds [4 x i32], ptr %11, i64 %177
  %179 = udiv i8 %175, 6
  %180 = zext i8 %179 to i64
  %181 = getelementptr inbounds i32, ptr %178, i64 %180
  %182 = load i32, ptr %181, align 4
  %183 = getelementptr inbounds i32, ptr %44, i64 %174
  store i32 %182, ptr %183, align 4
  %184 = add i64 %174, 1
  %185 = icmp eq i64 %184, 24
  br i1 %185, label %186, label %173

186:
  br label %315

187:
  br label %196

188:
  %189 = load i32, ptr %10, align 4
  %190 = load i32, ptr %15, align 4
  %191 = load i32, ptr %16, align 4
  %192 = load i32, ptr %17, align 4
  %193 = load i32, ptr %18, align 4
  %194 = load i32, ptr %19, align 4
  br i1 %20, label %195, label %234

195:
  br i1 %34, label %204, label %241

196:
  %197 = phi i64 [ 0, %187 ], [ %201, %196 ]
  %198 = getelementptr inbounds i32, ptr %46, i64 %197
  %199 = load i32, ptr %198, align 4
  %200 = getelementptr inbounds [1 x i32], ptr %10, i64 %197
  store i32 %199, ptr %200, align 4
  %201 = add i64 %197, 1
  %202 = icmp eq i64 %201, 6
  br i1 %202, label %188, label %196

203:
  br i1 %32, label %204, label %234

204:
  %205 = phi i64 [ 0, %195 ], [ %304, %203 ]
  %206 = phi i32 [ %194, %195 ], [ %300, %203 ]
  %207 = phi i32 [ %193, %195 ], [ %299, %203 ]
  %208 = phi i32 [ %192, %195 ], [ %288, %203 ]
  %209 = phi i32 [ %191, %195 ], [ %277, %203 ]
  %210 = phi i32 [ %190, %195 ], [ %266, %203 ]
  %211 = phi i32 [ %189, %195 ], [ %256, %203 ]
  tail call void @llvm.assume(i1 %32)
  br label %212

212:
  %213 = phi i64 [ %231, %212 ], [ %205, %204 ]
  %214 = phi i32 [ %228, %212 ], [ %206, %204 ]
  %215 = phi i32 [ %227, %212 ], [ %207, %204 ]
  %216 = phi i32 [ %215, %212 ], [ %208, %204 ]
  %217 = phi i32 [ %216, %212 ], [ %209, %204 ]
  %218 = phi i32 [ %217, %212 ], [ %210, %204 ]
  %219 = phi i32 [ %218, %212 ], [ %211, %204 ]
  %220 = phi i64 [ %232, %212 ], [ 0, %204 ]
  %221 = lshr i32 %219, 2
  %222 = xor i32 %221, %219
  %223 = shl i32 %222, 1
  %224 = shl i32 %215, 4
  %225 = xor i32 %224, %223
  %226 = xor i32 %225, %215
  %227 = xor i32 %226, %222
  %228 = add i32 %214, 362437
  %229 = add i32 %227, %228
  %230 = getelementptr inbounds i32, ptr %43, i64 %213
  store i32 %229, ptr %230, align 4
  %231 = add i64 %213, 1
  %232 = add i64 %220, 1
  %233 = icmp eq i64 %232, %33
  br i1 %233, label %234, label %212

234:
  %235 = phi i32 [ %189, %188 ], [ %256, %203 ], [ %218, %212 ]
  %236 = phi i32 [ %190, %188 ], [ %266, %203 ], [ %217, %212 ]
  %237 = phi i32 [ %191, %188 ], [ %277, %203 ], [ %216, %212 ]
  %238 = phi i32 [ %192, %188 ], [ %288, %203 ], [ %215, %212 ]
  %239 = phi i32 [ %193, %188 ], [ %299, %203 ], [ %227, %212 ]
  %240 = phi i32 [ %194, %188 ], [ %300, %203 ], [ %228, %212 ]
  store i32 %235, ptr %10, align 4
  store i32 %236, ptr %15, align 4
  store i32 %237, ptr %16, align 4
  store i32 %238, ptr %17, align 4
  store i32 %239, ptr %18, align 4
  store i32 %240, ptr %19, align 4
  br label %307

241:
  %242 = phi i64 [ %304, %241 ], [ 0, %195 ]
  %243 = phi i32 [ %300, %241 ], [ %194, %195 ]
  %244 = phi i32 [ %299, %241 ], [ %193, %195 ]
  %245 = phi i32 [ %288, %241 ], [ %192, %195 ]
  %246 = phi i32 [ %277, %241 ], [ %191, %195 ]
  %247 = phi i32 [ %266, %241 ], [ %190, %195 ]
  %248 = phi i32 [ %256, %241 ], [ %189, %195 ]
  %249 = phi i64 [ %305, %241 ], [ 0, %195 ]
  %250 = lshr i32 %248, 2
  %251 = xor i32 %250, %248
  %252 = shl i32 %251, 1
  %253 = shl i32 %244, 4
  %254 = xor i32 %253, %252
  %255 = xor i32 %254, %244
  %256 = xor i32 %255, %251
  %257 = add i32 %243, 362437
  %258 = add i32 %256, %257
  %259 = getelementptr inbounds i32, ptr %43, i64 %242
  store i32 %258, ptr %259, align 4
  %260 = lshr i32 %247, 2
  %261 = xor i32 %260, %247
  %262 = shl i32 %261, 1
  %263 = shl i32 %256, 4
  %264 = xor i32 %263, %262
  %265 = xor i32 %264, %256
  %266 = xor i32 %265, %261
  %267 = add i32 %243, 724874
  %268 = add i32 %266, %267
  %269 = getelementptr inbounds i32, ptr %43, i64 %242
  %270 = getelementptr inbounds i8, ptr %269, i64 4
  store i32 %268, ptr %270, align 4
  %271 = lshr i32 %246, 2
  %272 = xor i32 %271, %246
  %273 = shl i32 %272, 1
  %274 = shl i32 %266, 4
  %275 = xor i32 %274, %273
  %276 = xor i32 %275, %266
  %277 = xor i32 %276, %272
  %278 = add i32 %243, 1087311
  %279 = add i32 %277, %278
  %280 = getelementptr inbounds i32, ptr %43, i64 %242
  %281 = getelementptr inbounds i8, ptr %280, i64 8
  store i32 %279, ptr %281, align 4
  %282 = lshr i32 %245, 2
  %283 = xor i32 %282, %245
  %284 = shl i32 %283, 1
  %285 = shl i32 %277, 4
  %286 = xor i32 %285, %284
  %287 = xor i32 %286, %277
  %288 = xor i32 %287, %283
  %289 = add i32 %243, 1449748
  %290 = add i32 %288, %289
  %291 = getelementptr inbounds i32, ptr %43, i64 %242
  %292 = getelementptr inbounds i8, ptr %291, i64 12
  store i32 %290, ptr %292, align 4
  %293 = lshr i32 %244, 2
  %294 = xor i32 %293, %244
  %295 = shl i32 %294, 1
  %296 = shl i32 %288, 4
  %297 = xor i32 %296, %295
  %298 = xor i32 %297, %288
  %299 = xor i32 %298, %294
  %300 = add i32 %243, 1812185
  %301 = add i32 %299, %300
  %302 = getelementptr inbounds i32, ptr %43, i64 %242
  %303 = getelementptr inbounds i8, ptr %302, i64 16
  store i32 %301, ptr %303, align 4
  %304 = add i64 %242, 5
  %305 = add i64 %249, 5
  %306 = icmp eq i64 %305, %35
  br i1 %306, label %203, label %241

307:
  %308 = phi i64 [ 0, %234 ], [ %312, %307 ]
  %309 = getelementptr inbounds [1 x i32], ptr %10, i64 %308
  %310 = load i32, ptr %309, align 4
  %311 = getelementptr inbounds i32, ptr %44, i64 %308
  store i32 %310, ptr %311, align 4
  %312 = add i64 %308, 1
  %313 = icmp eq i64 %312, 6
  br i1 %313, label %314, label %307

314:
  br label %315

315:
  %316 = add i64 %45, -1
  %317 = getelementptr inbounds i32, ptr %43, i64 %1
  %318 = getelementptr inbounds i32, ptr %46, i64 %5
  %319 = getelementptr inbounds i32, ptr %44, i64 %3
  %320 = icmp sgt i64 %45, 1
  br i1 %320, label %42, label %321

321:
  ret void
}

declare i32 @llvm.smax.i32(i32, i32)

declare i32 @llvm.smin.i32(i32, i32)

declare i16 @llvm.cttz.i16(i16, i1)

declare void @llvm.assume(i1)
