SELECT document FROM compared WHERE one = 1
